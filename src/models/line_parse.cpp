#include "line_parse.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "expr.hpp"
#include "pattern.hpp"

namespace shardweld::models {

namespace {

const std::vector<std::string_view>& option_words() {
    static const std::vector<std::string_view> words = {"if",  "optional", "together", "keep",
                                                        "add", "drop",     "below",    "repeat"};
    return words;
}

JoinStep::Group group_of(Scanner& in) {
    constexpr std::array<std::pair<std::string_view, JoinStep::Group>, 4> kGroups = {
        {{"tp", JoinStep::Group::tp},
         {"etp", JoinStep::Group::etp},
         {"ep", JoinStep::Group::ep},
         {"fsdp", JoinStep::Group::fsdp}}};
    for (const auto& [name, group] : kGroups) {
        if (in.accept_name(name)) {
            return group;
        }
    }
    in.fail_expected("'tp', 'etp', 'ep' or 'flat'");
}

JoinStep parse_step(Scanner& in) {
    JoinStep step;
    step.group = group_of(in);
    step.stack = in.accept_mark("+");
    const std::size_t column = in.peek().column;
    const Index dim = in.number("the number of a dim");
    if (dim < 0 || dim >= static_cast<Index>(layout::kMaxAxes) || (step.stack && dim != 0)) {
        in.fail(column, step.stack ? "a new dim can only be dim 0" : "no tensor has that dim");
    }
    step.dim = static_cast<int>(dim);
    step.or_replica = !step.stack && in.accept_mark("?");
    return step;
}

Join parse_join(Scanner& in) {
    Join join;
    in.expect_mark("<");
    if (in.accept_name("flat")) {
        join.flat = true;
        if (!in.accept_mark(",")) {
            in.fail_expected("','");
        }
    }
    do {
        join.steps.push_back(parse_step(in));
    } while (in.accept_mark(","));
    in.expect_mark(">");
    return join;
}

DType parse_kept_dtype(Scanner& in) {
    constexpr std::array<std::pair<std::string_view, DType>, 4> kTypes = {
        {{"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16}, {"f64", DType::f64}}};
    for (const auto& [name, dtype] : kTypes) {
        if (in.accept_name(name)) {
            return dtype;
        }
    }
    in.fail_expected("'f32', 'f16', 'bf16' or 'f64'");
}

void parse_drop(Scanner& in, Line& line) {
    const auto segments = layout::segments_of(line.layout);
    const auto& options = option_words();
    do {
        const std::size_t column = in.peek().column;
        const std::string name = in.name("a segment of the layout");
        if (std::none_of(segments.begin(), segments.end(), [&](const layout::SegmentAxes& segment) {
                return segment.label == name;
            })) {
            in.fail(column, "the layout has no segment '" + name + "'");
        }
        line.drop.push_back(name);
    } while (!in.at_end() &&
             std::find(options.begin(), options.end(), in.peek().text) == options.end());
}

void parse_repeat(Scanner& in, Line& line) {
    const std::size_t column = in.peek().column;
    line.repeat = in.name("an axis of the layout");
    const auto segments = layout::segments_of(line.layout);
    if (std::none_of(segments.begin(), segments.end(), [&](const layout::SegmentAxes& segment) {
            return std::find(segment.axes.begin(), segment.axes.end(), line.repeat) !=
                   segment.axes.end();
        })) {
        in.fail(column, "the layout has no axis '" + line.repeat + "'");
    }
}

void parse_options(Scanner& in, Line& line) {
    while (!in.at_end()) {
        if (in.accept_name("if")) {
            line.condition = conjunction_of(line.condition, parse_expr(in));
        } else if (in.accept_name("optional")) {
            line.optional = true;
        } else if (in.accept_name("together")) {
            line.optional = true;
            line.together = true;
        } else if (in.accept_name("keep")) {
            line.keep = parse_kept_dtype(in);
        } else if (in.accept_name("add")) {
            const bool is_negative = in.accept_mark("-");
            const Index number = in.number("the number to add");
            line.add = is_negative ? -number : number;
        } else if (in.accept_name("drop")) {
            parse_drop(in, line);
        } else if (!line.drop.empty() && in.accept_name("below")) {
            line.below = parse_expr(in);
        } else if (in.accept_name("repeat")) {
            parse_repeat(in, line);
        } else {
            in.fail_expected(
                "'if', 'optional', 'together', 'keep', 'add', 'drop', 'below' (after 'drop'), "
                "'repeat' or the end of the "
                "line");
        }
    }
}

void parse_set(Scanner& in, const std::string& names, bool is_dialect, std::vector<Edit>& out) {
    Line line;
    line.origin = in.origin();
    line.logical = in.word("a logical tensor");
    const std::string text = in.until(option_words());
    line.layout = at_origin(in.origin(), [&] { return layout::parse_layout(text); });
    if (!in.at_end() && in.peek().is(Token::Kind::mark, "<")) {
        if (!is_dialect) {
            in.fail(in.peek().column, "only a dialect's lines say how shards are joined");
        }
        line.join = parse_join(in);
    }
    parse_options(in, line);
    if (!is_dialect && !line.repeat.empty()) {
        in.fail(1, "only a dialect's lines say what is repeated");
    }
    for (const std::string& name :
         at_origin(in.origin(), [&] { return expand_alternatives(names); })) {
        line.name = at_origin(in.origin(), [&] { return Pattern::parse(name); });
        out.push_back({Edit::Kind::set, name, line, nullptr, in.origin()});
        if (!is_dialect) {
            break;  // several names can be read; only one is written
        }
    }
}

void parse_removal(Scanner& in, std::vector<Edit>& out) {
    do {
        const std::string names = in.word("a name");
        for (const std::string& name :
             at_origin(in.origin(), [&] { return expand_alternatives(names); })) {
            out.push_back({Edit::Kind::remove, name, {}, nullptr, in.origin()});
        }
    } while (!in.at_end());
}

void parse_guard(Scanner& in, const std::string& names, std::vector<Edit>& out) {
    const ExprPtr condition = parse_expr(in);
    in.expect_end();
    for (const std::string& name :
         at_origin(in.origin(), [&] { return expand_alternatives(names); })) {
        out.push_back({Edit::Kind::guard, name, {}, condition, in.origin()});
    }
}

}  // namespace

void parse_line(Scanner& in, bool is_dialect, std::vector<Edit>& out) {
    const std::string names = in.word("a name");
    if (names == "without") {
        parse_removal(in, out);
    } else if (!in.at_end() && in.accept_name("if")) {
        parse_guard(in, names, out);
    } else {
        in.expect_mark("=");
        parse_set(in, names, is_dialect, out);
    }
}

}  // namespace shardweld::models

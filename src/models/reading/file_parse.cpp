// A file's text cut into statements and the lines of blocks; and what a line says: a tensor's name,
// its logical tensor, layout, join and options, or a change to inherited lines.
#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "core/text.hpp"
#include "models/expr.hpp"
#include "models/pattern.hpp"
#include "shardweld/error.hpp"

#include "declaration.hpp"

namespace shardweld::models {

namespace {

constexpr std::array<std::string_view, 10> kOptions = {
    "if", "optional", "together", "keep", "add", "drop", "as", "below", "repeat", "unwritten"};

JoinStep parse_step(Scanner& in) {
    using Group = JoinStep::Group;
    JoinStep step;
    step.group = in.one_of<Group>(
        {{"tp", Group::tp}, {"etp", Group::etp}, {"ep", Group::ep}, {"fsdp", Group::fsdp}},
        "'tp', 'etp', 'ep' or 'flat'");
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
    join.flat = in.accept_name("flat");
    if (join.flat) {
        in.expect_mark(",");
    }
    do {
        join.steps.push_back(parse_step(in));
    } while (in.accept_mark(","));
    in.expect_mark(">");
    return join;
}

void parse_drop(Scanner& in, Line& line) {
    const auto segments = layout::segments_of(line.layout);
    do {
        const std::size_t column = in.peek().column;
        const std::string name = in.name("a segment of the layout");
        if (find_item(segments, name, &layout::SegmentAxes::label) == nullptr) {
            in.fail(column, "the layout has no segment '" + name + "'");
        }
        line.drop.push_back(name);
    } while (!in.at_end() && !contains(kOptions, in.peek().text));
}

void parse_drop_as(Scanner& in, Line& line) {
    const std::size_t column = in.peek().column;
    line.drop_as = in.word("a segment of the layout, or 0");
    if (line.drop_as != "0" && std::ranges::count(layout::segments_of(line.layout), line.drop_as,
                                                  &layout::SegmentAxes::label) == 0) {
        in.fail(column, "the layout has no segment '" + line.drop_as + "'");
    }
}

void parse_repeat(Scanner& in, Line& line) {
    const std::size_t column = in.peek().column;
    line.repeat = in.name("an axis of the layout");
    if (std::ranges::none_of(layout::segments_of(line.layout), [&](const auto& segment) {
            return contains(segment.axes, line.repeat);
        })) {
        in.fail(column, "the layout has no axis '" + line.repeat + "'");
    }
}

void parse_option(Scanner& in, Line& line) {
    if (in.accept_name("if")) {
        line.condition = conjunction_of(line.condition, parse_expr(in));
    } else if (in.accept_name("optional")) {
        line.optional = true;
    } else if (in.accept_name("together")) {
        line.optional = true;
        line.together = true;
    } else if (in.accept_name("keep")) {
        line.keep = in.one_of<DType>(
            {{"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16}, {"f64", DType::f64}},
            "'f32', 'f16', 'bf16' or 'f64'");
    } else if (in.accept_name("add")) {
        line.add = in.number("the number to add");
    } else if (in.accept_name("drop")) {
        parse_drop(in, line);
    } else if (!line.drop.empty() && in.accept_name("as")) {
        parse_drop_as(in, line);
    } else if (!line.drop.empty() && in.accept_name("below")) {
        line.below = parse_expr(in);
    } else if (in.accept_name("repeat")) {
        parse_repeat(in, line);
    } else if (in.accept_name("unwritten")) {
        line.is_read_only = true;
    } else {
        in.fail_expected(
            "'if', 'optional', 'together', 'keep', 'add', 'drop', 'as' and 'below' (after 'drop'), "
            "'repeat', 'unwritten' or the end of the line");
    }
}

/// The rest of a line that begins with `NAME =`.
Line parse_tensor(Scanner& in, bool is_dialect) {
    Line line;
    line.logical = in.word("a logical tensor");
    const std::string text = in.until(kOptions);
    line.layout = at_origin(in.origin(), [&] { return layout::parse_layout(text); });
    if (in.peek().is(TokenKind::mark, "<")) {
        if (!is_dialect) {
            in.fail(in.peek().column, "only a dialect's lines say how shards are joined");
        }
        line.join = parse_join(in);
    }
    while (!in.at_end()) {
        parse_option(in, line);
    }
    if (!is_dialect && !line.repeat.empty()) {
        in.fail(1, "only a dialect's lines say what is repeated");
    }
    return line;
}

/// Adds the edit for each of the names; of a recipe's line for the first one: several can be read,
/// only one is written.
void add_named(Edit edit, const std::string& names, bool is_dialect, std::vector<Edit>& out) {
    const bool is_line = edit.kind == EditKind::set;
    const auto all = expand_alternatives(names, edit.line.origin);
    for (const std::string& name : all) {
        if (is_line) {
            edit.line.name = parse_pattern(name, edit.line.origin);
        } else {
            edit.line.name.text = name;
        }
        out.push_back(edit);
        if (is_line && !is_dialect) {
            return;
        }
        edit.line.firsts = {all.front()};
    }
}

}  // namespace

void parse_line(Scanner& in, bool is_dialect, std::vector<Edit>& out) {
    std::string names = in.word("a name");
    Edit edit;
    if (names == "without") {
        edit.kind = EditKind::remove;
        names = in.word("a name");
    } else if (in.accept_name("if")) {
        edit.kind = EditKind::guard;
        edit.line.condition = parse_expr(in);
        in.expect_end();
    } else {
        in.expect_mark("=");
        edit.line = parse_tensor(in, is_dialect);
    }
    edit.line.origin = in.origin();
    add_named(edit, names, is_dialect, out);
    while (!in.at_end()) {
        add_named(edit, in.word("a name"), is_dialect, out);
    }
}

namespace {

constexpr std::size_t kMostFileBytes = 1'000'000;
constexpr std::size_t kMostFileLines = 10'000;
constexpr std::size_t kLongestLine = 4096;

/// The line without its comment: a '#' at its start or behind a blank, outside of quotes.
std::string_view without_comment(std::string_view line) {
    bool is_quoted = false;
    for (const std::size_t i : indices(line)) {
        is_quoted = is_quoted != (line[i] == '"');
        const bool is_free = i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t';
        if (line[i] == '#' && is_free && !is_quoted) {
            return line.substr(0, i);
        }
    }
    return line;
}

void parse_text(std::string_view line, const std::string& origin, Parsed& file) {
    std::string_view text = without_comment(line);
    if (trim(text).empty()) {
        return;
    }
    const bool is_indented = text[0] == ' ' || text[0] == '\t';
    if (text.back() == '\r') {
        text.remove_suffix(1);
    }
    Scanner in(text, origin);
    if (!is_indented) {
        file.open = nullptr;
        parse_statement(in, file);
    } else if (file.open == nullptr) {
        in.fail(in.peek().column, "an indented line needs a 'block' or 'module' above it");
    } else {
        parse_line(in, file.out.is_dialect, *file.open);
    }
}

/// Two lines of one name need different conditions: else both would always take it.
void check_twice(const std::vector<Edit>& edits) {
    std::map<std::tuple<std::string, std::size_t, std::string>, std::string> seen;
    for (const auto& [kind, line] : edits) {
        if (kind != EditKind::set) {
            continue;
        }
        const std::string condition = line.condition ? line.condition->text : "";
        const auto [first, is_new] =
            seen.try_emplace({line.name.text, line.layout.dims.size(), condition}, line.origin);
        if (!is_new) {
            throw Error(ErrorCode::usage, line.origin + ": a second line for '" + line.name.text +
                                              "' with the same condition; the first is " +
                                              first->second);
        }
    }
}

std::string origin_of(const RecipeFile& source, std::size_t line) {
    return source.file_name + ":" + std::to_string(line);
}

}  // namespace

Declaration parse_source(const RecipeFile& source) {
    const auto require = [&](bool is_so, const char* otherwise) {
        if (!is_so) {
            throw Error(ErrorCode::usage, source.file_name + " " + otherwise);
        }
    };
    require(source.text.size() <= kMostFileBytes, "is larger than 1 MB");
    const auto lines = split(source.text, '\n');
    require(lines.size() <= kMostFileLines + 1, "has more than 10000 lines");
    Parsed file;
    for (const std::size_t i : indices(lines)) {
        const std::string origin = origin_of(source, i + 1);
        if (lines[i].size() > kLongestLine) {
            throw Error(ErrorCode::usage, origin + ": the line is longer than 4096 characters");
        }
        parse_text(lines[i], origin, file);
    }
    require(!file.out.name.empty(), "declares neither a recipe nor a dialect");
    for (const auto* blocks : {&file.out.blocks, &file.out.modules}) {
        for (const auto& [name, block] : *blocks) {
            check_twice(block.edits);
        }
    }
    check_twice(file.out.top.edits);
    check_twice(file.out.module_top.edits);
    return std::move(file.out);
}

Declaration parse_head(const RecipeFile& source) {
    constexpr std::array<std::string_view, 6> kWords = {"recipe",  "dialect", "match",
                                                        "extends", "with",    "names"};
    Parsed file;
    std::size_t number = 0;
    for (const std::string_view line : split(source.text, '\n')) {
        ++number;
        if (contains(kWords, line.substr(0, line.find_first_of(" \t")))) {
            parse_text(line, origin_of(source, number), file);
        }
    }
    return std::move(file.out);
}

}  // namespace shardweld::models

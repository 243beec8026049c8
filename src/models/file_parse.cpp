// From a file's text to its statements.

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "declaration.hpp"
#include "expr.hpp"
#include "pattern.hpp"
#include "rules_parse.hpp"
#include "scanner.hpp"

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

/// Appends the edits that one line of a block, or the rest of a `hub` or `store` statement, means:
/// one for each of its alternatives (in a recipe the first: only one name is written). Joins are
/// for dialects only.
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

constexpr std::size_t kMostFileBytes = 1'000'000;
constexpr std::size_t kMostFileLines = 10'000;
constexpr std::size_t kLongestLine = 4096;
constexpr Index kFormat = 1;

/// The line without its comment: a '#' at its start or behind a blank, outside of quotes.
std::string_view without_comment(std::string_view line) {
    bool is_quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        is_quoted = is_quoted != (line[i] == '"');
        const bool is_free = i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t';
        if (line[i] == '#' && is_free && !is_quoted) {
            return line.substr(0, i);
        }
    }
    return line;
}

/// Two lines of one name need different conditions: else both would always take it.
void check_twice(const std::vector<Edit>& edits) {
    std::map<std::tuple<std::string, std::size_t, std::string>, std::string> seen;
    for (const Edit& edit : edits) {
        if (edit.kind != Edit::Kind::set) {
            continue;
        }
        const std::string condition = edit.line.condition ? edit.line.condition->text : "";
        const auto [first, is_new] =
            seen.try_emplace({edit.name, edit.line.layout.dims.size(), condition}, edit.origin);
        if (!is_new) {
            throw Error(ErrorCode::usage, edit.origin + ": a second line for '" + edit.name +
                                              "' with the same condition; the first is " +
                                              first->second);
        }
    }
}

class FileParser {
  public:
    explicit FileParser(const RecipeFile& source) : source_(source) {}

    Declaration parse_head() {
        constexpr std::array<std::string_view, 5> words = {"recipe", "dialect", "match", "extends",
                                                           "with"};
        std::size_t number = 0;
        for (const std::string_view line : split(source_.text, '\n')) {
            ++number;
            if (std::ranges::count(words, line.substr(0, line.find_first_of(" \t"))) > 0) {
                parse_text(without_comment(line), origin_of(number));
            }
        }
        return std::move(out_);
    }

    Declaration parse() {
        if (source_.text.size() > kMostFileBytes) {
            fail("is larger than 1 MB");
        }
        const auto lines = split(source_.text, '\n');
        if (lines.size() > kMostFileLines + 1) {
            fail("has more than 10000 lines");
        }
        for (std::size_t i = 0; i < lines.size(); ++i) {
            const std::string origin = origin_of(i + 1);
            if (lines[i].size() > kLongestLine) {
                throw Error(ErrorCode::usage, origin + ": the line is longer than 4096 characters");
            }
            parse_text(without_comment(lines[i]), origin);
        }
        if (out_.name.empty()) {
            fail("declares neither a recipe nor a dialect");
        }
        for (const auto* blocks : {&out_.blocks, &out_.modules}) {
            for (const auto& [name, edits] : *blocks) {
                check_twice(edits);
            }
        }
        check_twice(out_.lines);
        return std::move(out_);
    }

  private:
    using ParseFunction = void (FileParser::*)(Scanner&);
    enum class For { both, recipe, dialect };
    struct Row {
        std::string_view word;
        For where;
        ParseFunction parse;
    };

    [[noreturn]] void fail(const std::string& what) const {
        throw Error(ErrorCode::usage, source_.file_name + " " + what);
    }

    [[nodiscard]] std::string origin_of(std::size_t line) const {
        return source_.file_name + ":" + std::to_string(line);
    }

    static const std::array<Row, 38>& table() {
        static const std::array<Row, 38> rows = {{
            {"recipe", For::both, &FileParser::recipe},
            {"dialect", For::both, &FileParser::dialect},
            {"format", For::both, &FileParser::format},
            {"extends", For::both, &FileParser::extends},
            {"with", For::recipe, &FileParser::with},
            {"uses", For::recipe, &FileParser::uses},
            {"families", For::dialect, &FileParser::families},
            {"match", For::recipe, &FileParser::match},
            {"verified", For::recipe, &FileParser::verified},
            {"fact", For::dialect, &FileParser::fact},
            {"given", For::recipe, &FileParser::given},
            {"default", For::dialect, &FileParser::defaults},
            {"let", For::recipe, &FileParser::let},
            {"index", For::recipe, &FileParser::index},
            {"flag", For::recipe, &FileParser::flag},
            {"fuse", For::dialect, &FileParser::fuse},
            {"block", For::both, &FileParser::block},
            {"module", For::recipe, &FileParser::module},
            {"at", For::both, &FileParser::rule<parse_at>},
            {"alias", For::dialect, &FileParser::rule<parse_alias>},
            {"store", For::dialect, &FileParser::top_line},
            {"hub", For::recipe, &FileParser::top_line},
            {"same", For::recipe, &FileParser::rule<parse_same>},
            {"ignore", For::both, &FileParser::rule<parse_ignore>},
            {"rename", For::recipe, &FileParser::rule<parse_rename>},
            {"place", For::recipe, &FileParser::rule<parse_place>},
            {"either", For::recipe, &FileParser::rule<parse_either>},
            {"pass", For::recipe, &FileParser::pass},
            {"needs", For::recipe, &FileParser::needs},
            {"linear", For::recipe, &FileParser::linear},
            {"names", For::dialect, &FileParser::own_names},
            {"lora", For::dialect, &FileParser::rule<parse_lora>},
            {"config", For::recipe, &FileParser::rule<parse_config>},
            {"writes", For::dialect, &FileParser::rule<parse_writes>},
            {"key", For::dialect, &FileParser::rule<parse_key>},
            {"rope_factors", For::dialect, &FileParser::rope_factors},
            {"claim", For::dialect, &FileParser::rule<parse_claim>},
            {"refuse", For::dialect, &FileParser::rule<parse_refuse>},
        }};
        return rows;
    }

    void parse_text(std::string_view text, const std::string& origin) {
        if (trim(text).empty()) {
            return;
        }
        const bool is_indented = text[0] == ' ' || text[0] == '\t';
        if (!text.empty() && text.back() == '\r') {
            text.remove_suffix(1);
        }
        Scanner in(text, origin);
        if (is_indented) {
            if (edits_ == nullptr) {
                in.fail(in.peek().column, "an indented line needs a 'block' or 'module' above it");
            }
            parse_line(in, out_.is_dialect, *edits_);
            return;
        }
        edits_ = nullptr;
        const std::string word = in.word("a statement");
        if (out_.name.empty() && word != "recipe" && word != "dialect") {
            in.fail(1, "a file begins with 'recipe NAME' or 'dialect NAME'");
        }
        statement(in, word);
        in.expect_end();
    }

    void statement(Scanner& in, const std::string& word) {
        for (const Row& row : table()) {
            if (row.word != word) {
                continue;
            }
            if (!out_.name.empty() && row.where == (out_.is_dialect ? For::recipe : For::dialect)) {
                in.fail(1, "'" + word + "' does not belong in a " +
                               (out_.is_dialect ? "dialect" : "recipe"));
            }
            (this->*row.parse)(in);
            return;
        }
        in.fail(1, "unknown statement '" + printable(word) + "'");
    }

    void declare(Scanner& in, bool is_dialect) {
        if (!out_.name.empty()) {
            in.fail(1, "a file declares one recipe or dialect; this one is '" + out_.name + "'");
        }
        out_.is_dialect = is_dialect;
        out_.origin = in.origin();
        out_.name = in.name("a name");
    }
    template <void (*parse_rule)(Scanner&, Declaration&)>
    void rule(Scanner& in) {
        parse_rule(in, out_);
    }

    void recipe(Scanner& in) { declare(in, false); }
    void dialect(Scanner& in) { declare(in, true); }

    void format(Scanner& in) {
        const std::size_t column = in.peek().column;
        const Index format = in.number("the number of the file format");
        if (format != kFormat) {
            in.fail(column, "file format " + std::to_string(format) +
                                " is not known; this program reads format 1");
        }
    }

    void extends(Scanner& in) { out_.extends = in.name("a name"); }
    void with(Scanner& in) { names(in, "the name of a recipe", out_.parts); }
    void match(Scanner& in) { out_.match = parse_expr(in); }
    void uses(Scanner& in) { names(in, "the name of a dialect", out_.uses); }
    void families(Scanner& in) { names(in, "the name of a recipe", out_.families); }
    void fact(Scanner& in) { names(in, "the name of a fact", out_.facts); }
    void given(Scanner& in) { names(in, "a name", out_.givens); }

    static void names(Scanner& in, std::string_view what, std::vector<std::string>& out) {
        do {
            out.push_back(in.name(what));
        } while (!in.at_end());
    }

    void verified(Scanner& in) {
        if (!in.accept_name("by")) {
            in.fail_expected("'by'");
        }
        do {
            std::string name = in.word("the name of a fixture");
            if (name.back() == ',') {
                name.pop_back();
            }
            out_.verified.push_back(std::move(name));
        } while (!in.at_end());
    }

    void define(Scanner& in, std::map<std::string, Definition>& into) {
        const std::size_t column = in.peek().column;
        const std::string name = in.name("a name");
        if (!defined_.insert(name).second) {
            in.fail(column, "'" + name + "' is defined a second time in this file");
        }
        in.expect_mark("=");
        into[name] = {parse_alternatives(in), in.origin()};
    }
    void let(Scanner& in) { define(in, out_.lets); }
    void index(Scanner& in) { define(in, out_.indices); }
    void flag(Scanner& in) { define(in, out_.flags); }
    void defaults(Scanner& in) {
        do {
            define(in, out_.defaults);
        } while (in.accept_mark(","));
    }

    void pass(Scanner& in) {
        do {
            out_.passes.push_back(in.word("a name, may hold '*'"));
        } while (!in.at_end());
    }

    void needs(Scanner& in) {
        NeedsRule rule;
        do {
            rule.ends.push_back(in.word("the end of a name, or several with '|'"));
        } while (!in.at_end() && !in.accept_name("if"));
        rule.condition = in.at_end() ? nullptr : parse_expr(in);
        out_.needs.push_back(std::move(rule));
    }

    void linear(Scanner& in) {
        do {
            const std::string word = in.word("a logical name, or several with '+'");
            const auto parts = split(word, '+');
            out_.linear.emplace_back(parts.begin(), parts.end());
        } while (!in.at_end());
    }

    void own_names(Scanner& in) {
        if (!in.accept_name("recipe")) {
            in.fail_expected("'recipe'");
        }
        out_.has_own_names = true;
    }

    void fuse(Scanner& in) {
        const std::string axis = in.name("an axis");
        in.expect_mark("=");
        auto& parts = out_.fuse[axis];
        parts.clear();
        parts.push_back(in.name("the outer axis"));
        parts.push_back(in.name("the inner axis"));
    }

    void rope_factors(Scanner& in) { out_.rope_factors = in.word("the name of a tensor"); }
    void block(Scanner& in) { edits_ = &out_.blocks[in.name("the name of a block")]; }
    void module(Scanner& in) { edits_ = &out_.modules[in.name("the name of a block")]; }
    void top_line(Scanner& in) { parse_line(in, out_.is_dialect, out_.lines); }

    const RecipeFile& source_;
    Declaration out_;
    std::vector<Edit>* edits_ = nullptr;  ///< of the block that indented lines belong to
    std::set<std::string> defined_;
};

}  // namespace

Declaration parse_source(const RecipeFile& source) {
    return FileParser(source).parse();
}

Declaration parse_head(const RecipeFile& source) {
    return FileParser(source).parse_head();
}

}  // namespace shardweld::models

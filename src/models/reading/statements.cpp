// Every statement of recipes and dialects: one table, and what each one reads.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/text.hpp"
#include "models/expr.hpp"
#include "models/pattern.hpp"

#include "declaration.hpp"

namespace shardweld::models {

namespace {

constexpr Index kFormat = 1;

// What statements read, each as a value.

std::vector<std::string> words_of(Scanner& in, std::string_view what) {
    std::vector<std::string> words;
    do {
        words.push_back(in.word(what));
    } while (!in.at_end());
    return words;
}

constexpr std::string_view kName = "a name";
constexpr std::string_view kDialect = "the name of a dialect";
constexpr std::string_view kRecipe = "the name of a recipe";
constexpr std::string_view kFact = "the name of a fact";
constexpr std::string_view kStored = "a stored name, may hold '*'";
constexpr std::string_view kPrefix = "the beginning of a stored name";
constexpr std::string_view kLogical = "a logical tensor, may hold '*'";
constexpr std::string_view kCapture = "a capture";
constexpr std::string_view kEnd = "the end of a name, or several with '|'";

template <const std::string_view& what>
std::string name(Scanner& in) {
    return in.name(what);
}

template <const std::string_view& what>
std::vector<std::string> names(Scanner& in) {
    std::vector<std::string> names;
    do {
        names.push_back(in.name(what));
    } while (!in.at_end());
    return names;
}

ExprPtr condition_of(Scanner& in) {
    return in.accept_name("if") ? parse_expr(in) : nullptr;
}

std::vector<std::string> parse_verified(Scanner& in) {
    in.expect_name("by");
    std::vector<std::string> names = words_of(in, "the name of a fixture");
    for (std::string& name : names) {
        name.resize(name.size() - (name.ends_with(',') ? 1 : 0));
    }
    return names;
}

AliasRule alias_of(Scanner& in, const std::string& from, const std::string& to,
                   const std::string& stacked) {
    AliasRule rule;
    rule.origin = in.origin();
    rule.from = parse_pattern(from, in.origin());
    rule.to = parse_pattern(to, in.origin());
    rule.stacked = stacked;
    if (!stacked.empty()) {
        rule.stack =
            parse_pattern(without_capture(from, stacked, in.origin() + ": column 1"), in.origin());
    }
    if (!std::ranges::is_permutation(rule.from.captures, rule.to.captures)) {
        in.fail(1, "both names of an alias need the same captures");
    }
    const auto adds = [](const std::string& symbol) { return !symbol.empty(); };
    if (std::ranges::any_of(rule.from.plus, adds) || std::ranges::any_of(rule.to.plus, adds)) {
        in.fail(1, "a name of an alias can add nothing to a capture");
    }
    return rule;
}

std::vector<AliasRule> parse_aliases(Scanner& in) {
    const std::string from = in.word("the beginning of a stored name");
    in.expect_mark("=");
    const std::string to = in.word("the beginning of the name that it stands for");
    const std::string stacked = in.accept_name("stacked") ? in.name("a capture") : "";
    const ExprPtr condition = condition_of(in);
    const auto left = expand_alternatives(from, in.origin());
    const auto right = expand_alternatives(to, in.origin());
    if (left.size() != right.size()) {
        in.fail(1, "both names of an alias need as many alternatives");
    }
    std::vector<AliasRule> rules;
    for (const std::size_t i : indices(left)) {
        rules.push_back(alias_of(in, left[i], right[i], stacked));
        rules.back().condition = condition;
    }
    return rules;
}

SameRule parse_same(Scanner& in) {
    SameRule rule;
    rule.origin = in.origin();
    rule.a = in.word("a logical tensor");
    in.expect_mark("=");
    rule.b = in.word("a logical tensor");
    rule.condition = condition_of(in);
    return rule;
}

IgnoreRule parse_ignore(Scanner& in) {
    IgnoreRule rule;
    while (!in.next_is('"')) {
        rule.globs.push_back(in.word("the reason in quotes"));
    }
    rule.reason = in.quoted("the reason in quotes");
    if (rule.globs.empty()) {
        in.fail(1, "expected a name before the reason");
    }
    return rule;
}

RenameRule renamed(Scanner& in, std::string_view from, std::string_view to) {
    RenameRule rule;
    rule.from = in.word(from);
    in.expect_mark("=");
    rule.to = in.word(to);
    return rule;
}

RenameRule parse_rename(Scanner& in) {
    RenameRule rule = renamed(in, "the beginning of a name in the module tree",
                              "the beginning of the name on the hub");
    if (in.accept_name("in")) {
        rule.dialect = in.name(kDialect);
    }
    rule.is_read_only = in.accept_name("unwritten");
    if (has_part(rule.from, '{')) {
        rule.counted = std::make_shared<const std::pair<Pattern, Pattern>>(
            parse_pattern(rule.from, in.origin()), parse_pattern(rule.to, in.origin()));
        const auto& [from, to] = *rule.counted;
        if (!std::ranges::is_permutation(from.captures, to.captures) || has_part(from.text, '+') ||
            has_part(to.text, '+')) {
            in.fail(1, "both beginnings of a name need the same captures");
        }
    }
    return rule;
}

RenameRule parse_place(Scanner& in) {
    return renamed(in, "the beginning of inherited names",
                   "the beginning of the names in this family");
}

RenameRule parse_either(Scanner& in) {
    return renamed(in, "the beginning of a name on the hub",
                   "what such names begin with in other models");
}

std::vector<std::string> parse_passes(Scanner& in) {
    return words_of(in, "a name, may hold '*'");
}

std::vector<std::vector<std::string>> parse_linear(Scanner& in) {
    std::vector<std::vector<std::string>> all;
    for (const std::string& word : words_of(in, "a logical name, or several with '+'")) {
        const auto parts = split(word, '+');
        all.emplace_back(parts.begin(), parts.end());
    }
    return all;
}

bool parse_own_names(Scanner& in) {
    in.expect_name("recipe");
    return true;
}

LoraNames parse_lora(Scanner& in) {
    LoraNames names;
    names.down = in.word("the end of A's name");
    names.up = in.word("the end of B's name");
    in.expect_name("parts");
    names.part_down = in.word("the end of the name of a segment's A");
    names.part_up = in.word("the end of the name of a segment's B");
    if (!has_part(names.part_down, '*') || !has_part(names.part_up, '*')) {
        in.fail(1, "the names of parts need a '*' for the segment's label");
    }
    return names;
}

std::optional<std::string> config_value(Scanner& in) {
    if (in.accept_name("absent")) {
        return std::nullopt;
    }
    for (const char* const word : {"true", "false"}) {
        if (in.accept_name(word)) {
            return word;
        }
    }
    const Token next = in.peek();
    if (next.kind != TokenKind::text) {
        return std::to_string(in.number("a number, a text in quotes, true, false or 'absent'"));
    }
    if (has_part(next.text, '\\')) {
        in.fail(next.column, "a text must not contain '\\'");
    }
    return "\"" + in.take().text + "\"";
}

ConfigEdit parse_config(Scanner& in) {
    ConfigEdit edit;
    edit.field = in.word("a field of config.json");
    in.expect_mark("=");
    edit.value = config_value(in);
    if (!in.accept_name("if")) {
        in.fail_expected("'if absent' or 'if present'");
    }
    edit.if_present =
        in.one_of<bool>({{"present", true}, {"absent", false}}, "'absent' or 'present'");
    edit.logical_glob = in.word("a logical tensor, may hold '*'");
    return edit;
}

using KeyType = MetadataField::Type;

double real_in(Scanner& in, const std::string& text) {
    const auto value = parsed_number<double>(text);
    if (!value) {
        in.fail(1, "'" + text + "' is no number");
    }
    return *value;
}

KeyRule::Value key_value(Scanner& in, KeyType type) {
    KeyRule::Value value;
    if (in.next_is('"') && (type == KeyType::f32 || type == KeyType::text)) {
        value.literal = in.take().text;
    } else {
        value.expr = parse_sum(in);
    }
    if (type == KeyType::f32 && in.accept_name("times")) {
        value.factor = real_in(in, in.take().text);
    }
    if (type == KeyType::f32 && value.literal) {
        value.number = real_in(in, *value.literal);
    }
    return value;
}

KeyRule parse_key(Scanner& in) {
    KeyRule rule;
    rule.origin = in.origin();
    rule.name = in.word("the name of a key");
    rule.type = in.one_of<KeyType>({{"u32", KeyType::u32},
                                    {"f32", KeyType::f32},
                                    {"bool", KeyType::boolean},
                                    {"text", KeyType::text}},
                                   "u32, f32, bool or text");
    in.expect_mark("=");
    do {
        rule.values.push_back(key_value(in, rule.type));
    } while (in.accept_name("else"));
    rule.condition = condition_of(in);
    rule.optional = in.accept_name("optional");
    return rule;
}

std::string parse_rope_factors(Scanner& in) {
    return in.word("the name of a tensor");
}

ClaimRule parse_claim(Scanner& in) {
    ClaimRule rule;
    rule.origin = in.origin();
    rule.field = parse_sum_else(in);
    rule.at_most = in.accept_mark("<=");
    if (!rule.at_most) {
        in.expect_mark("=");
    }
    rule.name = in.name("a name the checkpoint states");
    rule.condition = condition_of(in);
    for (const ExprPtr& part : {rule.field, rule.condition}) {
        for_each_node(part, [&](const Expr& node) {
            if (node.op == Op::name) {
                in.fail(1, "a claim may only use '@fields' and '$names', not '" + node.name + "'");
            }
        });
    }
    return rule;
}

template <const std::string_view& what>
NamesRule parse_names_rule(Scanner& in) {
    NamesRule rule;
    rule.origin = in.origin();
    do {
        rule.names.push_back(in.word(what));
    } while (!in.at_end() && in.peek().text != "if");
    rule.condition = condition_of(in);
    return rule;
}

RefuseRule parse_refuse(Scanner& in) {
    RefuseRule rule;
    rule.origin = in.origin();
    rule.reason = in.quoted("the reason in quotes");
    if (!in.accept_name("if")) {
        in.fail_expected("'if' and a condition");
    }
    rule.condition = parse_expr(in);
    return rule;
}

// Where the values go.

template <typename T>
Recipe& owner_of(Declaration& out, T Recipe::* /*member*/) {
    return out.recipe;
}
template <typename T>
Dialect& owner_of(Declaration& out, T Dialect::* /*member*/) {
    return out.dialect;
}
template <typename T>
Declaration& owner_of(Declaration& out, T Declaration::* /*member*/) {
    return out;
}

template <typename T>
void add(std::vector<T>& out, T value) {
    out.push_back(std::move(value));
}
template <typename T>
void add(std::vector<T>& out, std::vector<T> values) {
    append_all(out, std::move(values));
}
template <typename T, typename U>
void add(T& out, U value) {
    out = std::move(value);
}

/// Adds the statement's value to the list that holds such ones, or sets what it is the value of.
template <auto member, auto parse>
void put_value(Scanner& in, Parsed& file) {
    add(owner_of(file.out, member).*member, parse(in));
}

template <bool is_dialect>
void begin_file(Scanner& in, Parsed& file) {
    Declaration& out = file.out;
    if (!out.name.empty()) {
        in.fail(1, "a file declares one recipe or dialect; this one is '" + out.name + "'");
    }
    out.is_dialect = is_dialect;
    out.origin = in.origin();
    out.name = in.name("a name");
}

void check_format(Scanner& in, Parsed& /*file*/) {
    const std::size_t column = in.peek().column;
    const Index format = in.number("the number of the file format");
    if (format != kFormat) {
        in.fail(column, "file format " + std::to_string(format) +
                            " is not known; this program reads format 1");
    }
}

template <auto member, bool is_index = false>
void define(Scanner& in, Parsed& file) {
    auto& definitions = owner_of(file.out, member).*member;
    const std::size_t column = in.peek().column;
    const std::string name = in.name("a name");
    if (definitions.contains(name)) {
        in.fail(column, "'" + name + "' is defined a second time in this file");
    }
    in.expect_mark("=");
    definitions[name] = {parse_alternatives(in), in.origin(), is_index};
}

void define_defaults(Scanner& in, Parsed& file) {
    do {
        define<&Dialect::defaults>(in, file);
    } while (in.accept_mark(","));
}

template <auto rules>
void add_fuse(Scanner& in, Parsed& file) {
    const std::string axis = in.name("an axis");
    in.expect_mark("=");
    std::string outer = in.name("the outer axis");
    (file.out.dialect.*rules)[axis] = {std::move(outer), in.name("the inner axis")};
}

template <Blocks Declaration::*blocks>
void open_block(Scanner& in, Parsed& file) {
    file.open = &(file.out.*blocks)[in.name("the name of a block")].edits;
}

void add_line(Scanner& in, Parsed& file) {
    parse_line(in, file.out.is_dialect, file.out.top.edits);
}

void add_module_line(Scanner& in, Parsed& file) {
    parse_line(in, false, file.out.module_top.edits);
}

/// Names that each stored tensor gives their extents.
void add_sized(Scanner& in, Parsed& file) {
    do {
        file.out.recipe.symbols[in.name("an axis or a capture")] = {{}, in.origin(), true};
    } while (!in.at_end());
}

void add_at(Scanner& in, Parsed& file) {
    At at;
    at.origin = in.origin();
    const std::string prefixes = in.word("the beginning of a name");
    in.expect_mark("=");
    at.logical = in.word("the beginning of a logical tensor's name");
    at.block = in.name("the name of a block");
    at.stacked = in.accept_name("stacked") ? in.name("a capture") : "";
    at.together = in.accept_name("together");
    at.optional = at.together || in.accept_name("optional");
    for (const std::string& prefix : expand_alternatives(prefixes, in.origin())) {
        at.prefix = prefix;
        file.out.ats.push_back(at);
        at.first = at.first.empty() ? prefix : at.first;
        if (!file.out.is_dialect) {
            break;
        }
    }
}

void add_ignore(Scanner& in, Parsed& file) {
    (file.out.is_dialect ? put_value<&Dialect::ignore, parse_ignore>
                         : put_value<&Recipe::ignore, parse_ignore>)(in, file);
}

void add_writes(Scanner& in, Parsed& file) {
    file.out.dialect.written_format = in.name("the name of a format");
    file.out.dialect.architecture = in.name("an architecture");
}

enum class In { both, recipe, dialect };

/// A statement's first word, in which files it may stand, and what becomes of the rest.
struct Statement {
    std::string_view word;
    In files;
    void (*parse)(Scanner& in, Parsed& file);
};

constexpr auto kStatements = std::to_array<Statement>({
    {"recipe", In::both, begin_file<false>},
    {"dialect", In::both, begin_file<true>},
    {"format", In::both, check_format},
    {"extends", In::both, put_value<&Declaration::extends, name<kName>>},
    {"with", In::recipe, put_value<&Declaration::parts, names<kRecipe>>},
    {"uses", In::recipe, put_value<&Recipe::dialects, names<kDialect>>},
    {"families", In::dialect, put_value<&Dialect::families, names<kRecipe>>},
    {"match", In::recipe, put_value<&Recipe::match, parse_expr>},
    {"verified", In::recipe, put_value<&Recipe::verified, parse_verified>},
    {"fact", In::dialect, put_value<&Dialect::facts, names<kFact>>},
    {"given", In::recipe, put_value<&Recipe::givens, names<kName>>},
    {"default", In::dialect, define_defaults},
    {"let", In::recipe, define<&Recipe::symbols>},
    {"index", In::recipe, define<&Recipe::symbols, true>},
    {"flag", In::recipe, define<&Recipe::symbols>},
    {"fuse", In::dialect, add_fuse<&Dialect::fuse>},
    {"regroup", In::dialect, add_fuse<&Dialect::regroup>},
    {"block", In::both, open_block<&Declaration::blocks>},
    {"module", In::recipe, open_block<&Declaration::modules>},
    {"at", In::both, add_at},
    {"alias", In::dialect, put_value<&Dialect::aliases, parse_aliases>},
    {"store", In::dialect, add_line},
    {"hub", In::recipe, add_line},
    {"tree", In::recipe, add_module_line},
    {"sized", In::recipe, add_sized},
    {"same", In::recipe, put_value<&Recipe::same, parse_same>},
    {"ignore", In::both, add_ignore},
    {"rename", In::recipe, put_value<&Recipe::renames, parse_rename>},
    {"place", In::recipe, put_value<&Declaration::places, parse_place>},
    {"either", In::recipe, put_value<&Recipe::eithers, parse_either>},
    {"pass", In::recipe, put_value<&Recipe::passes, parse_passes>},
    {"needs", In::recipe, put_value<&Recipe::needs, parse_names_rule<kEnd>>},
    {"linear", In::recipe, put_value<&Recipe::linear, parse_linear>},
    {"names", In::dialect, put_value<&Dialect::has_own_names, parse_own_names>},
    {"lora", In::dialect, put_value<&Dialect::lora, parse_lora>},
    {"config", In::recipe, put_value<&Recipe::config, parse_config>},
    {"written", In::dialect, put_value<&Dialect::written_names, parse_names_rule<kStored>>},
    {"unwritten", In::dialect, put_value<&Dialect::unwritten_names, parse_names_rule<kStored>>},
    {"inside", In::dialect, put_value<&Dialect::insides, parse_names_rule<kPrefix>>},
    {"kept", In::dialect, put_value<&Dialect::kepts, parse_names_rule<kLogical>>},
    {"separate", In::dialect, put_value<&Dialect::separates, parse_names_rule<kCapture>>},
    {"writes", In::dialect, add_writes},
    {"key", In::dialect, put_value<&Dialect::keys, parse_key>},
    {"rope_factors", In::dialect, put_value<&Dialect::rope_factors, parse_rope_factors>},
    {"claim", In::dialect, put_value<&Dialect::claims, parse_claim>},
    {"refuse", In::dialect, put_value<&Dialect::refusals, parse_refuse>},
});

}  // namespace

void parse_statement(Scanner& in, Parsed& file) {
    const Declaration& out = file.out;
    const std::string word = in.word("a statement");
    if (out.name.empty() && word != "recipe" && word != "dialect") {
        in.fail(1, "a file begins with 'recipe NAME' or 'dialect NAME'");
    }
    auto* const statement = find_item(kStatements, word, &Statement::word);
    if (statement == nullptr) {
        in.fail(1, "unknown statement '" + printable(word) + "'");
    }
    if (!out.name.empty() && statement->files == (out.is_dialect ? In::recipe : In::dialect)) {
        in.fail(1,
                "'" + word + "' does not belong in a " + (out.is_dialect ? "dialect" : "recipe"));
    }
    statement->parse(in, file);
    in.expect_end();
}

}  // namespace shardweld::models

#include "rules_parse.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "expr.hpp"
#include "pattern.hpp"

namespace shardweld::models {

namespace {

std::optional<std::string> config_value(Scanner& in) {
    if (in.accept_name("absent")) {
        return std::nullopt;
    }
    for (const std::string_view word : {"true", "false"}) {
        if (in.accept_name(word)) {
            return std::string(word);
        }
    }
    if (in.peek().kind == Token::Kind::text) {
        const std::size_t column = in.peek().column;
        const std::string text = in.take().text;
        if (text.find('\\') != std::string::npos) {
            in.fail(column, "a text must not contain '\\'");
        }
        return "\"" + text + "\"";
    }
    return std::to_string(in.number("a number, a text in quotes, true, false or 'absent'"));
}

using KeyType = MetadataField::Type;

KeyType key_type(Scanner& in) {
    constexpr std::array<std::pair<std::string_view, KeyType>, 4> kTypes = {
        {{"u32", KeyType::u32},
         {"f32", KeyType::f32},
         {"bool", KeyType::boolean},
         {"text", KeyType::text}}};
    for (const auto& [name, type] : kTypes) {
        if (in.accept_name(name)) {
            return type;
        }
    }
    in.fail_expected("u32, f32, bool or text");
}

double real_in(Scanner& in, const std::string& text) {
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || end != text.data() + text.size()) {
        in.fail(1, "'" + text + "' is no number");
    }
    return value;
}

KeyRule::Value key_value(Scanner& in, KeyType type) {
    KeyRule::Value value;
    if (in.next_is('"')) {
        value.literal = in.take().text;
    } else {
        value.expr = parse_sum(in);
    }
    if (type == KeyType::f32 && in.accept_name("times")) {
        value.factor = real_in(in, in.take().text);
    }
    if (type == KeyType::f32 && value.literal) {
        (void)real_in(in, *value.literal);
    }
    return value;
}

/// The text of a prefix without its capture, "decoder.layers.{l}." -> "decoder.layers.".
std::string without_capture(Scanner& in, const std::string& prefix, const std::string& capture) {
    const std::string part = "{" + capture + "}.";
    const std::size_t where = prefix.find(part);
    if (where == std::string::npos) {
        in.fail(1, "the name '" + prefix + "' has no '" + part + "' to leave out");
    }
    return prefix.substr(0, where) + prefix.substr(where + part.size());
}

AliasRule alias_of(Scanner& in, const std::string& from, const std::string& to,
                   const std::string& stacked) {
    AliasRule rule;
    rule.origin = in.origin();
    const auto parsed = [&](const std::string& text) {
        return at_origin(in.origin(), [&] { return Pattern::parse(text); });
    };
    rule.from = parsed(from);
    rule.to = parsed(to);
    rule.stacked = stacked;
    if (!stacked.empty()) {
        rule.stack = parsed(without_capture(in, from, stacked));
    }
    std::vector<std::string> left = rule.from.captures;
    std::vector<std::string> right = rule.to.captures;
    std::ranges::sort(left);
    std::ranges::sort(right);
    if (left != right) {
        in.fail(1, "both names of an alias need the same captures");
    }
    const auto adds = [](const std::string& symbol) { return !symbol.empty(); };
    if (std::ranges::any_of(rule.from.plus, adds) || std::ranges::any_of(rule.to.plus, adds)) {
        in.fail(1, "a name of an alias can add nothing to a capture");
    }
    return rule;
}

}  // namespace

void parse_at(Scanner& in, Declaration& out) {
    At at;
    at.origin = in.origin();
    const std::string prefixes = in.word("the beginning of a name");
    in.expect_mark("=");
    at.logical = in.word("the beginning of a logical tensor's name");
    at.block = in.name("the name of a block");
    if (in.accept_name("stacked")) {
        at.stacked = in.name("a capture");
    }
    at.together = in.accept_name("together");
    at.optional = at.together || in.accept_name("optional");
    for (const std::string& prefix :
         at_origin(in.origin(), [&] { return expand_alternatives(prefixes); })) {
        at.prefix = prefix;
        out.ats.push_back(at);
        if (!out.is_dialect) {
            break;
        }
    }
}

void parse_alias(Scanner& in, Declaration& out) {
    const std::string from = in.word("the beginning of a stored name");
    in.expect_mark("=");
    const std::string to = in.word("the beginning of the name that it stands for");
    const std::string stacked = in.accept_name("stacked") ? in.name("a capture") : "";
    const ExprPtr condition = in.accept_name("if") ? parse_expr(in) : nullptr;
    const auto names = at_origin(
        in.origin(), [&] { return std::pair(expand_alternatives(from), expand_alternatives(to)); });
    if (names.first.size() != names.second.size()) {
        in.fail(1, "both names of an alias need as many alternatives");
    }
    for (std::size_t i = 0; i < names.first.size(); ++i) {
        out.aliases.push_back(alias_of(in, names.first[i], names.second[i], stacked));
        out.aliases.back().condition = condition;
    }
}

void parse_same(Scanner& in, Declaration& out) {
    SameRule rule;
    rule.origin = in.origin();
    rule.a = in.word("a logical tensor");
    in.expect_mark("=");
    rule.b = in.word("a logical tensor");
    if (in.accept_name("if")) {
        rule.condition = parse_expr(in);
    }
    out.same.push_back(std::move(rule));
}

void parse_ignore(Scanner& in, Declaration& out) {
    IgnoreRule rule;
    while (!in.next_is('"')) {
        rule.globs.push_back(in.word("the reason in quotes"));
    }
    rule.reason = in.take().text;
    if (rule.globs.empty()) {
        in.fail(1, "expected a name before the reason");
    }
    out.ignore.push_back(std::move(rule));
}

void parse_rename(Scanner& in, Declaration& out) {
    RenameRule rule;
    rule.from = in.word("the beginning of a name in the module tree");
    in.expect_mark("=");
    rule.to = in.word("the beginning of the name on the hub");
    out.renames.push_back(std::move(rule));
}

void parse_place(Scanner& in, Declaration& out) {
    RenameRule rule;
    rule.from = in.word("the beginning of inherited names");
    in.expect_mark("=");
    rule.to = in.word("the beginning of the names in this family");
    out.places.push_back(std::move(rule));
}

void parse_either(Scanner& in, Declaration& out) {
    RenameRule rule;
    rule.from = in.word("the beginning of a name on the hub");
    in.expect_mark("=");
    rule.to = in.word("what such names begin with in other models");
    out.eithers.push_back(std::move(rule));
}

void parse_config(Scanner& in, Declaration& out) {
    ConfigEdit edit;
    edit.field = in.word("a field of config.json");
    in.expect_mark("=");
    edit.value = config_value(in);
    if (!in.accept_name("if")) {
        in.fail_expected("'if absent' or 'if present'");
    }
    edit.if_present = in.accept_name("present");
    if (!edit.if_present && !in.accept_name("absent")) {
        in.fail_expected("'absent' or 'present'");
    }
    edit.logical_glob = in.word("a logical tensor, may hold '*'");
    out.config.push_back(std::move(edit));
}

void parse_claim(Scanner& in, Declaration& out) {
    ClaimRule rule;
    rule.origin = in.origin();
    rule.field = parse_sum_else(in);
    rule.at_most = in.accept_mark("<=");
    if (!rule.at_most) {
        in.expect_mark("=");
    }
    rule.name = in.name("a name the checkpoint states");
    if (in.accept_name("if")) {
        rule.condition = parse_expr(in);
    }
    for (const ExprPtr& part : {rule.field, rule.condition}) {
        for_each_node(part, [&](const Expr& node) {
            if (node.op == Op::name) {
                in.fail(1, "a claim may only use '@fields' and '$names', not '" + node.name + "'");
            }
        });
    }
    out.claims.push_back(std::move(rule));
}

void parse_refuse(Scanner& in, Declaration& out) {
    RefuseRule rule;
    rule.origin = in.origin();
    if (!in.next_is('"')) {
        in.fail_expected("the reason in quotes");
    }
    rule.reason = in.take().text;
    if (!in.accept_name("if")) {
        in.fail_expected("'if' and a condition");
    }
    rule.condition = parse_expr(in);
    out.refusals.push_back(std::move(rule));
}

void parse_lora(Scanner& in, Declaration& out) {
    LoraNames names;
    names.down = in.word("the end of A's name");
    names.up = in.word("the end of B's name");
    if (!in.accept_name("parts")) {
        in.fail_expected("'parts'");
    }
    names.part_down = in.word("the end of the name of a segment's A");
    names.part_up = in.word("the end of the name of a segment's B");
    for (const std::string* part : {&names.part_down, &names.part_up}) {
        if (part->find('*') == std::string::npos) {
            in.fail(1, "the names of parts need a '*' for the segment's label");
        }
    }
    out.lora = std::move(names);
}

void parse_key(Scanner& in, Declaration& out) {
    KeyRule rule;
    rule.origin = in.origin();
    rule.name = in.word("the name of a key");
    rule.type = key_type(in);
    in.expect_mark("=");
    do {
        rule.values.push_back(key_value(in, rule.type));
    } while (in.accept_name("else"));
    if (in.accept_name("if")) {
        rule.condition = parse_expr(in);
    }
    rule.optional = in.accept_name("optional");
    out.keys.push_back(std::move(rule));
}

void parse_writes(Scanner& in, Declaration& out) {
    out.written = WrittenAs{in.name("the name of a format"), in.name("an architecture")};
}

}  // namespace shardweld::models

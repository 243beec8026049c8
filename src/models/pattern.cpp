#include "pattern.hpp"

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "scanner.hpp"

namespace shardweld::models {

namespace {

constexpr std::size_t kMostAlternatives = 64;
// The name of the capture that counts layers; in "{k+L}" the sum counts them.
constexpr const char* kLayer = "l";

[[noreturn]] void fail(std::string_view text, const std::string& what) {
    throw Error(ErrorCode::usage, "the name '" + printable(text) + "' " + what);
}

void add_capture(Pattern& pattern, std::string_view inside) {
    const auto plus = inside.find('+');
    const std::string_view name = inside.substr(0, plus);
    const std::string_view symbol =
        plus == std::string_view::npos ? std::string_view() : inside.substr(plus + 1);
    if (!is_name(name) || (plus != std::string_view::npos && !is_name(symbol))) {
        fail(pattern.text,
             "holds '{" + printable(inside) + "}'; expected '{name}' or '{name+symbol}'");
    }
    const auto& seen = pattern.captures;
    if (contains(seen, name)) {
        fail(pattern.text, "captures " + std::string(name) + " twice");
    }
    if (!seen.empty() && pattern.literals.back().empty()) {
        fail(pattern.text, "has no text between two captures");
    }
    pattern.captures.push_back(std::string(name));
    pattern.plus.push_back(std::string(symbol));
}

void add_literal(Pattern& pattern, std::string_view literal) {
    if (!pattern.captures.empty() && !literal.empty() && is_digit(literal.front())) {
        fail(pattern.text, "has a digit right behind a capture");
    }
    pattern.literals.push_back(std::string(literal));
}

/// Digits without leading zeros at the start of `text`, and their value.
std::optional<std::pair<std::size_t, Index>> leading_number(std::string_view text) {
    std::size_t end = 0;
    while (end < text.size() && is_digit(text[end])) {
        ++end;
    }
    if (end == 0 || (end > 1 && text[0] == '0')) {
        return std::nullopt;
    }
    const auto value = parse_index(text.substr(0, end));
    return value ? std::optional(std::pair(end, *value)) : std::nullopt;
}

/// Position behind the brace that closes the one at `open`.
std::size_t closing(std::string_view text, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < text.size(); ++i) {
        depth += text[i] == '{' ? 1 : 0;
        depth -= text[i] == '}' ? 1 : 0;
        if (depth == 0) {
            return i;
        }
    }
    fail(text, "has a '{' that is not closed");
}

/// `inside` cut at each '|' that stands in no inner braces.
std::vector<std::string_view> cut(std::string_view inside) {
    std::vector<std::string_view> parts;
    std::size_t begin = 0;
    int depth = 0;
    for (const std::size_t i : indices(inside)) {
        depth += inside[i] == '{' ? 1 : 0;
        depth -= inside[i] == '}' ? 1 : 0;
        if (inside[i] == '|' && depth == 0) {
            parts.push_back(inside.substr(begin, i - begin));
            begin = i + 1;
        }
    }
    parts.push_back(inside.substr(begin));
    return parts;
}

void expand_into(const std::string& text, std::vector<std::string>& out) {
    const std::string_view all = text;
    for (std::size_t open = text.find('{'); open != std::string::npos;
         open = text.find('{', open)) {
        const std::size_t close = closing(text, open);
        const auto parts = cut(all.substr(open + 1, close - open - 1));
        if (parts.size() > 1) {
            for (const std::string_view part : parts) {
                expand_into(text.substr(0, open) + std::string(part) + text.substr(close + 1), out);
            }
            return;
        }
        open = close;
    }
    if (out.size() == kMostAlternatives) {
        fail(text, "stands for more than " + std::to_string(kMostAlternatives) + " names");
    }
    out.push_back(text);
}

/// What the captures of the beginning of `name` are, which is left with what is behind it.
std::optional<Captures> beginning(const Pattern& pattern, std::string_view& name,
                                  const SymbolValue& value_of) {
    if (pattern.literals.empty() || !name.starts_with(pattern.literals.front())) {
        return std::nullopt;
    }
    Captures values;
    name.remove_prefix(pattern.literals.front().size());
    for (const std::size_t i : indices(pattern.captures)) {
        const std::string& plus = pattern.plus[i];
        const auto number = leading_number(name);
        if (!number || (!plus.empty() && !value_of)) {
            return std::nullopt;
        }
        const Index base = plus.empty() ? 0 : value_of(plus);
        if (number->second < base) {
            return std::nullopt;
        }
        name.remove_prefix(number->first);
        if (!name.starts_with(pattern.literals[i + 1])) {
            return std::nullopt;
        }
        name.remove_prefix(pattern.literals[i + 1].size());
        values[pattern.captures[i]] = number->second - base;
    }
    return values;
}

Index value_at(const Pattern& pattern, std::size_t i, const Captures& captures,
               const SymbolValue& value_of) {
    auto* const found = find_value(captures, pattern.captures[i]);
    if (found == nullptr) {
        throw Error(ErrorCode::internal,
                    "no value of " + pattern.captures[i] + " for the name " + pattern.text);
    }
    return pattern.plus[i].empty() ? *found
                                   : checked_add(*found, value_of(pattern.plus[i]), pattern.text);
}

}  // namespace

Pattern Pattern::parse(std::string_view text) {
    Pattern pattern;
    pattern.text = text;
    std::size_t at = 0;
    for (std::size_t open = text.find('{'); open != std::string_view::npos;
         open = text.find('{', at)) {
        const std::size_t close = closing(text, open);
        add_literal(pattern, text.substr(at, open - at));
        add_capture(pattern, text.substr(open + 1, close - open - 1));
        at = close + 1;
    }
    add_literal(pattern, text.substr(at));
    for (const std::string& literal : pattern.literals) {
        if (literal.find_first_of("}|") != std::string::npos) {
            fail(text, "has a '}' or '|' outside of braces");
        }
    }
    return pattern;
}

std::optional<Captures> Pattern::match(std::string_view name, const SymbolValue& value_of) const {
    auto values = beginning(*this, name, value_of);
    return name.empty() ? std::move(values) : std::nullopt;
}

std::optional<Captures> Pattern::match_beginning(std::string_view& name) const {
    std::string_view rest = name;
    auto values = beginning(*this, rest, {});
    name = values ? rest : name;
    return values;
}

std::string filled(std::string logical, const Captures& captures) {
    for (const auto& [name, value] : captures) {
        logical = replaced(std::move(logical), "{" + name + "}", std::to_string(value));
    }
    return logical;
}

std::string format(const Pattern& pattern, const Captures& captures, const SymbolValue& value_of) {
    std::string name = pattern.literals.front();
    for (const std::size_t i : indices(pattern.captures)) {
        name += std::to_string(value_at(pattern, i, captures, value_of));
        name += pattern.literals[i + 1];
    }
    return name;
}

Captures captures_for_condition(const Pattern& pattern, const Captures& captures,
                                const SymbolValue& value_of) {
    Captures seen = captures;
    if (captures.contains(kLayer)) {
        return seen;  // the sum counts something else
    }
    if (pattern.layer) {
        seen[kLayer] = checked_add(captures.at(pattern.layer->capture),
                                   value_of(pattern.layer->plus), pattern.text);
        return seen;
    }
    for (const std::size_t i : indices(pattern.captures)) {
        if (!pattern.plus[i].empty()) {
            seen[kLayer] = value_at(pattern, i, captures, value_of);
        }
    }
    return seen;
}

std::vector<std::string> expand_alternatives(std::string_view text, const std::string& origin) {
    std::vector<std::string> out;
    at_origin(origin, [&] { expand_into(std::string(text), out); });
    return out;
}

std::string without_capture(std::string name, const std::string& capture,
                            const std::string& origin) {
    const std::string part = "{" + capture + "}.";
    const std::size_t where = name.find(part);
    if (where == std::string::npos) {
        throw Error(ErrorCode::usage,
                    origin + ": the name '" + name + "' has no '" + part + "' to leave out");
    }
    return name.erase(where, part.size());
}

Pattern parse_pattern(std::string_view text, const std::string& origin) {
    return at_origin(origin, [&] { return Pattern::parse(text); });
}

Pattern concatenated(const Pattern& front, const Pattern& back, const std::string& origin) {
    const bool is_apart = front.captures.empty() || !front.literals.back().empty();
    if (!is_apart ||
        std::ranges::find_first_of(front.captures, back.captures) != front.captures.end()) {
        return parse_pattern(front.text + back.text, origin);  // which says what is wrong
    }
    std::vector<std::string> literals;
    literals.reserve(front.literals.size() + back.literals.size() - 1);
    literals.assign(front.literals.begin(), front.literals.end());
    literals.back() += back.literals.front();
    literals.insert(literals.end(), back.literals.begin() + 1, back.literals.end());
    Pattern all{front.text + back.text, std::move(literals), front.captures, front.plus,
                front.layer};
    all.captures.append(back.captures);
    all.plus.append(back.plus);
    return all;
}

std::string digits_hidden(const Pattern& pattern) {
    std::string text;
    text.reserve(pattern.text.size());
    for (const std::string& literal : pattern.literals) {
        text += literal;
        text += '0';
    }
    text.pop_back();  // the last literal has no capture behind it
    return digits_hidden(text);
}

}  // namespace shardweld::models

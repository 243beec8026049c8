#include "name_rules.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld {

/// path_rules.txt and tensor_rules.txt. The build makes them.
std::string_view path_rules_text();
std::string_view tensor_rules_text();

namespace {

constexpr auto kVerbs =
    std::to_array<std::pair<std::string_view, std::vector<NameRule> NameRules::*>>({
        {"step", &NameRules::steps},
        {"last", &NameRules::last_saves},
        {"best", &NameRules::best_saves},
        {"way", &NameRules::ways},
        {"shard", &NameRules::shards},
        {"index", &NameRules::indices},
        {"seen", &NameRules::seen},
        {"lack", &NameRules::lacking},
        {"names", &NameRules::names},
        {"leave", &NameRules::left_aside},
        {"refuse", &NameRules::refused},
        {"dialect", &NameRules::dialects},
        {"part", &NameRules::parts},
        {"trace", &NameRules::traces},
        {"tell", &NameRules::telling},
        {"child", &NameRules::children},
        {"words", &NameRules::words},
    });

/// Takes a word and the blanks behind it.
std::string_view take_word(std::string_view& line) {
    const std::string_view word = line.substr(0, line.find(' '));
    line = trim(line.substr(word.size()));
    return word;
}

/// `line`: behind the verb.
NameRule parse_rule(std::string_view format, std::string_view line) {
    auto cells = split(line, '|');
    cells.resize(3);
    NameRule rule{format, {}, {}, {}, trim(cells[1]), trim(cells[2])};
    auto* patterns = &rule.patterns;
    for (std::string_view rest = trim(cells[0]); !rest.empty();) {
        const std::string_view word = take_word(rest);
        if (word == "but" || word == "beside") {
            patterns = word == "but" ? &rule.but : &rule.beside;
        } else {
            patterns->push_back(word);
        }
    }
    return rule;
}

void parse_rules(std::string_view text, NameRules& rules) {
    std::string_view format;
    for (std::string_view line : split(text, '\n')) {
        if (line.empty() || line.starts_with('#')) {
            continue;
        }
        const std::string_view verb = take_word(line);
        if (verb == "format" || verb == "trainer") {
            format = verb == "format" ? line : "";
            continue;
        }
        auto* const known = find_item(kVerbs, verb, [](auto& one) { return one.first; });
        if (known == nullptr) {
            throw Error(ErrorCode::internal, "a row of names begins with " + std::string(verb));
        }
        (rules.*known->second).push_back(parse_rule(format, line));
    }
}

/// How many digits a text begins with.
std::size_t n_digits(std::string_view text) {
    return std::min(text.find_first_not_of("0123456789"), text.size());
}

/// What a pattern calls the number that it begins with: "{x:02}" is x, '#' nothing.
std::string_view take_part(std::string_view& pattern) {
    const std::size_t end = pattern.front() == '#' ? 0 : pattern.find('}');
    const std::string_view part =
        pattern.substr(std::min<std::size_t>(end, 1), end == 0 ? 0 : end - 1);
    pattern.remove_prefix(end + 1);
    return part;
}

}  // namespace

const NameRules& name_rules() {
    static const NameRules rules = [] {
        NameRules all;
        parse_rules(path_rules_text(), all);
        parse_rules(tensor_rules_text(), all);
        return all;
    }();
    return rules;
}

Index NameParts::number(std::string_view part) const {
    const auto digits = find(part);
    return digits == end() ? 0 : parse_index(digits->second).value_or(0);
}

// Once more from each '*', which is never reconsidered when a later one was reached.
std::optional<NameParts> match_name(std::string_view pattern, std::string_view name) {
    NameParts parts;
    std::optional<std::string_view> behind_star;
    std::string_view at_star;
    while (!pattern.empty() || !name.empty()) {
        const char sign = pattern.empty() ? '\0' : pattern.front();
        const bool is_number = sign == '#' || sign == '{';
        const std::string_view digits = name.substr(0, is_number ? n_digits(name) : 0);
        if (sign == '*') {
            pattern.remove_prefix(1);
            behind_star = pattern;
            at_star = name;
        } else if (!digits.empty() && (sign == '#' || parse_index(digits))) {
            const std::string_view part = take_part(pattern);
            if (sign == '{') {
                parts[part.substr(0, part.find(':'))] = digits;
            }
            name.remove_prefix(digits.size());
        } else if (!pattern.empty() && !name.empty() && sign == name.front()) {
            pattern.remove_prefix(1);
            name.remove_prefix(1);
        } else if (behind_star && !at_star.empty()) {
            at_star.remove_prefix(1);
            pattern = *behind_star;
            name = at_star;
        } else {
            return std::nullopt;
        }
    }
    return parts;
}

bool matches(std::string_view pattern, std::string_view name) {
    return match_name(pattern, name).has_value();
}

bool matches_any(const std::vector<std::string_view>& patterns, std::string_view name) {
    return std::ranges::any_of(patterns, [&](auto pattern) { return matches(pattern, name); });
}

std::string name_with(std::string_view pattern, const std::map<std::string_view, Index>& numbers) {
    std::string name;
    while (!pattern.empty()) {
        if (pattern.front() != '{') {
            name += pattern.front();
            pattern.remove_prefix(1);
            continue;
        }
        const auto part = split(take_part(pattern), ':');
        const Index width = part.size() > 1 ? parse_index(part[1]).value_or(0) : 0;
        name += zero_filled(std::to_string(numbers.at(part[0])), static_cast<std::size_t>(width));
    }
    return name;
}

std::optional<RuleMatch> match_rule(const std::vector<NameRule>& rules, std::string_view name,
                                    std::optional<std::string_view> format) {
    for (const NameRule& rule : rules) {
        if (format && rule.format != *format) {
            continue;
        }
        for (const std::string_view pattern : rule.patterns) {
            if (auto parts = match_name(pattern, name); parts && !matches_any(rule.but, name)) {
                return RuleMatch{&rule, pattern, std::move(*parts)};
            }
        }
    }
    return std::nullopt;
}

const NameRule& rule_of(const std::vector<NameRule>& rules, std::string_view format,
                        std::string_view what) {
    auto* const found = find_where(
        rules, [&](const NameRule& rule) { return rule.format == format && rule.what == what; });
    if (found == nullptr) {
        throw Error(ErrorCode::internal, "there is no row of names for " + std::string(format) +
                                             ": " + std::string(what));
    }
    return *found;
}

const std::vector<std::string_view>& known_words(std::string_view what) {
    return rule_of(name_rules().words, "", what).patterns;
}

bool is_known_as(std::string_view name, std::string_view what) {
    return matches_any(known_words(what), name);
}

}  // namespace shardweld

#include "name_changes.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::models {

namespace {

/// "l*2+1".
NameTemplate::Number number_in(std::string_view inside, std::string_view text,
                               const std::string& origin) {
    NameTemplate::Number number;
    const auto end_of = [](std::string_view rest, std::string_view marks) {
        return std::min(rest.find_first_of(marks), rest.size());
    };
    const auto count = [&](std::string_view digits) {
        const auto value = parse_index(digits);
        if (!value || *value > 1000) {
            throw Error(ErrorCode::usage, origin + ": the name '" + printable(text) + "' holds '{" +
                                              printable(inside) +
                                              "}'; expected '{l}', '{l*2}', '{l+1}' or '{l*2+1}'");
        }
        return *value;
    };
    std::string_view rest = inside;
    number.capture = rest.substr(0, end_of(rest, "*+-"));
    rest.remove_prefix(number.capture.size());
    if (rest.starts_with('*')) {
        const std::string_view digits = rest.substr(1, end_of(rest.substr(1), "+-"));
        number.factor = std::max<Index>(count(digits), 1);
        rest.remove_prefix(1 + digits.size());
    }
    if (!rest.empty()) {
        number.plus = count(rest.substr(1)) * (rest.front() == '-' ? -1 : 1);
    }
    return number;
}

/// The captures with which the name begins as the template says, and how much of it that is.
std::optional<std::pair<Captures, std::size_t>> beginning_of(const NameTemplate& pattern,
                                                             std::string_view name) {
    Captures captures;
    std::size_t at = 0;
    for (std::size_t i = 0; i < pattern.literals.size(); ++i) {
        if (i > 0) {
            const std::string_view digits =
                name.substr(at, name.find_first_not_of("0123456789", at) - at);
            const auto value =
                digits.size() > 1 && digits[0] == '0' ? std::nullopt : parse_index(digits);
            const NameTemplate::Number& number = pattern.numbers[i - 1];
            if (!value || *value < number.plus || (*value - number.plus) % number.factor != 0) {
                return std::nullopt;
            }
            captures[number.capture] = (*value - number.plus) / number.factor;
            at += digits.size();
        }
        if (!name.substr(at).starts_with(pattern.literals[i])) {
            return std::nullopt;
        }
        at += pattern.literals[i].size();
    }
    return std::pair(std::move(captures), at);
}

/// The name with its beginning changed; nullopt: it begins otherwise, or would have a number below
/// zero.
std::optional<std::string> changed(const NameTemplate& from, const NameTemplate& to,
                                   std::string_view name) {
    const auto found = beginning_of(from, name);
    if (!found) {
        return std::nullopt;
    }
    std::string text = to.literals.front();
    for (std::size_t i = 0; i < to.numbers.size(); ++i) {
        const NameTemplate::Number& number = to.numbers[i];
        const Index value = found->first.at(number.capture) * number.factor + number.plus;
        if (value < 0) {
            return std::nullopt;
        }
        text += std::to_string(value) + to.literals[i + 1];
    }
    return text + std::string(name.substr(found->second));
}

std::optional<std::string> changed(const std::string& from, const std::string& to,
                                   std::string_view name) {
    return name.starts_with(from) ? std::optional(to + std::string(name.substr(from.size())))
                                  : std::nullopt;
}

/// By the rule with the longest beginning of those that `is_meant`.
template <typename IsMeant>
std::string changed_by(const std::vector<RenameRule>& rules, std::string_view name, bool is_back,
                       const IsMeant& is_meant) {
    std::string best(name);
    std::size_t longest = 0;
    for (const RenameRule& rule : rules) {
        const std::string& from = is_back ? rule.to : rule.from;
        // Of equal ones the last, on the way back the first.
        if (from.size() < longest + (is_back ? 1 : 0) || !is_meant(rule)) {
            continue;
        }
        const auto& parts = rule.counted;
        auto other = !parts    ? changed(from, is_back ? rule.from : rule.to, name)
                     : is_back ? changed(parts->second, parts->first, name)
                               : changed(parts->first, parts->second, name);
        if (other) {
            best = *std::move(other);
            longest = from.size();
        }
    }
    return best;
}

}  // namespace

std::string renamed_by(const std::vector<RenameRule>& rules, std::string_view name) {
    return changed_by(rules, name, false, [](const RenameRule&) { return true; });
}

std::string renamed_back_by(const std::vector<RenameRule>& rules, std::string_view name,
                            std::string_view dialect) {
    return changed_by(rules, name, true, [&](const RenameRule& rule) {
        return rule.dialect == dialect && !rule.is_read_only;
    });
}

NameTemplate parse_template(std::string_view text, const std::string& origin) {
    NameTemplate made;
    std::size_t at = 0;
    for (std::size_t open = text.find('{'); open != std::string_view::npos;
         open = text.find('{', at)) {
        const std::size_t close = std::min(text.find('}', open), text.size());
        made.literals.emplace_back(text.substr(at, open - at));
        made.numbers.push_back(number_in(text.substr(open + 1, close - open - 1), text, origin));
        at = std::min(close + 1, text.size());
    }
    made.literals.emplace_back(text.substr(at));
    return made;
}

}  // namespace shardweld::models

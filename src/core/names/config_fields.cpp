#include "config_fields.hpp"

#include <algorithm>

#include "core/regex.hpp"
#include "core/text.hpp"

#include "name_rules.hpp"

namespace shardweld {

namespace {

bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}

bool is_of_prediction(std::string_view part) {
    return part == "mtp" || part == "eh_proj" || part.starts_with("mtp_") ||
           part.starts_with("nextn");
}

bool is_of_tower(std::string_view part) {
    return has_part(part, "encoder") || std::ranges::any_of(kTowers, [&](const Tower& tower) {
               return belongs_to(tower, part);
           });
}

}  // namespace

bool predicts_further_tokens(std::string_view tensor) {
    return std::ranges::any_of(split(tensor, '.'), is_of_prediction);
}

std::optional<Index> stack_layer_of(std::string_view tensor) {
    constexpr std::array<std::string_view, 4> kStacks = {"layers", "h", "blocks", "block"};
    const auto parts = split(tensor, '.');
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        if (is_of_tower(parts[i]) || is_of_prediction(parts[i])) {
            return std::nullopt;
        }
        const auto number = parse_index(parts[i + 1]);
        if (number && contains(kStacks, parts[i])) {
            return number;
        }
    }
    return std::nullopt;
}

bool belongs_to(const Tower& tower, std::string_view tensor) {
    return std::ranges::any_of(tower.words,
                               [&](std::string_view word) { return has_part(tensor, word); });
}

std::string trained_class(std::string_view name) {
    constexpr std::array<std::string_view, 4> kPrefixes = {"FSDP", "DDP", "Replicate",
                                                           "Parametrized"};
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (const std::string_view prefix : kPrefixes) {
            // What is left has a name of its own: "FSDPModule" is no model's.
            const std::string_view rest = name.substr(std::min(name.size(), prefix.size()));
            if (name.starts_with(prefix) && rest.size() > 1 && is_upper(rest.front()) &&
                rest != "Module" && rest != "Model") {
                name = rest;
                is_changed = true;
            }
        }
    }
    return std::string(name);
}

bool is_wrapper_class(std::string_view name) {
    return is_known_as(name, "class around any model");
}

namespace {

enum class Match { none, by_class, by_expression, by_name };

Match match_of(std::string_view module, const std::string& target) {
    constexpr std::string_view kExpression = "re:";
    if (target == module) {
        return Match::by_name;
    }
    if (target.starts_with(kExpression)) {
        const Regex from_start("^(?:" + target.substr(kExpression.size()) + ")");
        return from_start.is_found_in(module) ? Match::by_expression : Match::none;
    }
    // vLLM's layers are linear ones, too; other classes are not.
    return has_part(target, "Linear") ? Match::by_class : Match::none;
}

}  // namespace

std::optional<std::size_t> group_of(std::string_view module,
                                    const std::vector<std::vector<std::string>>& targets) {
    Match best = Match::none;
    std::optional<std::size_t> found;
    for (const std::size_t at : indices(targets)) {
        Match own = Match::none;
        for (const std::string& target : targets[at]) {
            own = std::max(own, match_of(module, target));
        }
        if (own != Match::none && own >= best) {
            found = own == best ? std::nullopt : std::optional(at);
            best = own;
        }
    }
    return found;
}

}  // namespace shardweld

#include "module_targets.hpp"

#include <algorithm>

#include "regex.hpp"

namespace shardweld {

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
    // Of vLLM's layers, too; others' classes are not linear ones.
    return target.find("Linear") != std::string::npos ? Match::by_class : Match::none;
}

}  // namespace

std::optional<std::size_t> group_of(std::string_view module,
                                    const std::vector<std::vector<std::string>>& targets) {
    Match best = Match::none;
    std::optional<std::size_t> found;
    for (std::size_t at = 0; at < targets.size(); ++at) {
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

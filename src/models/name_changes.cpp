#include "name_changes.hpp"

#include <optional>
#include <utility>

#include "pattern.hpp"

namespace shardweld::models {

namespace {

/// The name with its beginning changed; nullopt: it begins otherwise.
std::optional<std::string> changed(const Pattern& from, const Pattern& to, std::string_view name) {
    const auto captures = from.match_beginning(name);
    return captures ? std::optional(format(to, *captures, {}) + std::string(name)) : std::nullopt;
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
        // The last of equal ones counts, on the way back the first.
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

}  // namespace shardweld::models

#include "together.hpp"

#include "core/lists.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

namespace {

/// "mtp." and 0 of "mtp.{k}.enorm" with k = 0, or where k is an axis of the layout, which begins at
/// 0; "merger." and 0 of "merger.norm".
std::pair<std::string, Index> group_of(const HubName& hub) {
    const std::string_view logical = hub.line->logical;
    const std::size_t begin = logical.find('{');
    if (begin == std::string_view::npos) {
        return {std::string(logical.substr(0, logical.rfind('.') + 1)), 0};
    }
    const std::size_t end = logical.find('}', begin);
    const std::string capture(logical.substr(begin + 1, end - begin - 1));
    auto* const value = find_value(hub.captures, capture);
    return {std::string(logical.substr(0, begin)), value == nullptr ? 0 : *value};
}

}  // namespace

void Together::add_name(const HubName& hub, bool is_stored) {
    StoredTogether& group = groups_[group_of(hub)];
    if (is_stored) {
        if (group.stored.empty()) {
            group.stored = hub.name;
        }
    } else if (group.n_absent++ == 0) {
        group.absent = hub.name;
        group.origin = hub.line->origin;
    }
}

void Together::check(const std::string& hint) const {
    const StoredTogether* before = nullptr;
    for (const auto& [at, group] : groups_) {
        const bool is_stored = !group.stored.empty();
        if (group.n_absent > 0 && is_stored) {
            throw Error(ErrorCode::mismatch,
                        "of " + at.first + std::to_string(at.second) + " a part is stored (" +
                            group.stored + "), but the checkpoint holds nothing for " +
                            group.absent +
                            (group.n_absent == 1
                                 ? ""
                                 : " and " + std::to_string(group.n_absent - 1) + " more of it"),
                        hint)
                .set_detail(group.origin);
        }
        if (is_stored && at.second > 0 && before != nullptr && before->stored.empty()) {
            throw Error(ErrorCode::mismatch,
                        group.stored + " is stored, but nothing of what comes before it, such as " +
                            before->absent,
                        hint)
                .set_detail(before->origin);
        }
        before = &group;
    }
}

std::optional<Index> Together::n_stored(std::string_view prefix) const {
    std::optional<Index> count;
    for (const auto& [at, group] : groups_) {
        if (at.first == prefix) {
            count = count.value_or(0) + (group.stored.empty() ? 0 : 1);
        }
    }
    return count;
}

}  // namespace shardweld::plan

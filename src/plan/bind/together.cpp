#include "together.hpp"

#include <string_view>

#include "shardweld/core/error.hpp"

namespace shardweld::plan {

namespace {

/// "mtp.0" of "mtp.{k}.enorm" with k = 0, or where k is an axis of the layout, which begins at 0.
std::string group_of(const HubName& hub) {
    const std::string_view logical = hub.line->logical;
    const std::size_t begin = logical.find('{');
    if (begin == std::string_view::npos) {
        return std::string(logical);
    }
    const std::size_t end = logical.find('}', begin);
    const std::string capture(logical.substr(begin + 1, end - begin - 1));
    const auto value = hub.captures.find(capture);
    return std::string(logical.substr(0, begin)) +
           std::to_string(value == hub.captures.end() ? 0 : value->second);
}

}  // namespace

void Together::note(const HubName& hub, bool is_stored) {
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
    for (const auto& [name, group] : groups_) {
        if (group.n_absent > 0 && !group.stored.empty()) {
            throw Error(ErrorCode::mismatch,
                        "of " + name + " a part is stored (" + group.stored +
                            "), but the checkpoint holds nothing for " + group.absent +
                            (group.n_absent == 1
                                 ? ""
                                 : " and " + std::to_string(group.n_absent - 1) + " more of it"),
                        hint)
                .set_detail(group.origin);
        }
    }
}

}  // namespace shardweld::plan

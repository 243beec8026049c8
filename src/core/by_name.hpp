// Lists of things that have names.
#pragma once

#include <algorithm>
#include <vector>

namespace shardweld {

/// Sorts by name. The first of two with one name, which lie side by side then; nullptr when all
/// names differ.
template <typename Named>
const Named* sort_by_name(std::vector<Named>& things) {
    std::ranges::sort(things, {}, &Named::name);
    const auto twice = std::ranges::adjacent_find(
        things, [](const Named& a, const Named& b) { return a.name == b.name; });
    return twice == things.end() ? nullptr : &*twice;
}

}  // namespace shardweld

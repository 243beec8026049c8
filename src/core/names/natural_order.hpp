// The natural order of very many names, such as those of a million tensors in thousands of files.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/lists.hpp"
#include "core/shared_string.hpp"

namespace shardweld {

/// The places of the names in natural order (natural_less) of their texts. A front, a file mostly,
/// is compared with others once for all names that have it, and so is a rest. Equal names stay in
/// their order.
std::vector<std::size_t> natural_order(const std::vector<SharedName>& names);

/// Brings things into an order of their places, one after the other where they are: a second list
/// of them may not fit into memory.
template <typename Thing>
void put_in_order(std::vector<Thing>& things, std::vector<std::size_t> order) {
    for (const std::size_t begin : indices(order)) {
        Thing first = std::move(things[begin]);
        std::size_t at = begin;
        while (order[at] != begin) {
            const std::size_t next = std::exchange(order[at], at);
            // A million things lie far apart in memory.
            __builtin_prefetch(&things[order[next]]);
            things[at] = std::move(things[next]);
            at = next;
        }
        order[at] = at;
        things[at] = std::move(first);
    }
}

/// Brings things into the natural order of their names; things of equal names stay in
/// their order.
template <typename Thing, typename Name>
void sort_naturally(std::vector<Thing>& things, const Name& name_of) {
    put_in_order(things, natural_order(collect_list(things, name_of)));
}

}  // namespace shardweld

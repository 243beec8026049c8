// Law 6 of the layout algebra: source patches cover a target patch exactly once.
// Pure geometry.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "shardweld/layout/patch.hpp"

namespace shardweld::plan {

/// Two boxes that share an element, by position; nullopt when all are pairwise disjoint. Sorts and
/// sweeps along the axis that separates the boxes best: near linear for the shardings that occur.
struct Clash {
    std::size_t first = 0;
    std::size_t second = 0;
};
std::optional<Clash> find_clash(const std::vector<layout::Patch>& patches);

}  // namespace shardweld::plan

// A box of a logical tensor: a range of each axis.
#pragma once

#include <cstddef>

#include "core/index.hpp"
#include "core/inline_vector.hpp"

namespace shardweld::layout {

inline constexpr std::size_t kMaxAxes = 8;
/// Stacked layers of stacked experts have four; more lie on the heap.
inline constexpr std::size_t kUsualAxes = 4;

/// Half-open range of one axis as (lo, extent).
struct Range {
    Index lo = 0;
    Index extent = 0;
    friend bool operator==(const Range&, const Range&) = default;
};
using Box = InlineVector<Range, kMaxAxes, kUsualAxes>;

}  // namespace shardweld::layout

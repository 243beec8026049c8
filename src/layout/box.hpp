// A box of a logical tensor: a range of each axis.
#pragma once

#include <algorithm>
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
    [[nodiscard]] Index end() const { return lo + extent; }
    friend bool operator==(const Range&, const Range&) = default;
};

/// What both ranges hold; an extent of 0 or less: nothing.
inline Range meet(const Range& a, const Range& b) {
    const Index lo = std::max(a.lo, b.lo);
    return {lo, std::min(a.end(), b.end()) - lo};
}

using Box = InlineVector<Range, kMaxAxes, kUsualAxes>;

}  // namespace shardweld::layout

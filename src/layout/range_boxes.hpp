// The one step behind flat and lower: a row-major range as a few boxes, without allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "core/index.hpp"

#include "box.hpp"

namespace shardweld::layout {

/// Calls emit(box, position of its first element) for at most 2 * rank - 1 boxes, in order, that
/// tile the row-major range [begin, end) of `shape`. Requires 1 <= rank <= kMaxAxes, extents whose
/// product fits an Index, and a range inside them (extents above 0 unless the range is empty).
template <typename Emit>
void for_each_range_box(Index begin, Index end, std::span<const Index> shape, const Emit& emit) {
    const std::size_t rank = shape.size();
    std::array<Index, kMaxAxes> weights;
    weights[rank - 1] = 1;
    for (std::size_t k = rank - 1; k > 0; --k) {
        weights[k - 1] = weights[k] * shape[k];
    }
    Box box;
    box.resize(rank);
    for (Index at = begin; at < end;) {
        // The outermost axis of which at least one whole row starts here.
        std::size_t k = 0;
        while (k + 1 < rank && (end - at < weights[k] || at % weights[k] != 0)) {
            ++k;
        }
        Index rest = at;
        for (std::size_t i = 0; i < k; ++i) {
            box[i] = {rest / weights[i], 1};
            rest %= weights[i];
        }
        const Index row = rest / weights[k];
        const Index whole_rows = (end - at) / weights[k];
        box[k] = {row, k == 0 ? whole_rows : std::min(whole_rows, shape[k] - row)};
        for (std::size_t i = k + 1; i < rank; ++i) {
            box[i] = {0, shape[i]};
        }
        emit(box, at);
        at += box[k].extent * weights[k];
    }
}

}  // namespace shardweld::layout

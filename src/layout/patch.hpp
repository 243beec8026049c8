// The layout algebra's declared value: where a box of a logical tensor is stored. Pure arithmetic
// in elements.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/index.hpp"
#include "core/inline_vector.hpp"

#include "box.hpp"

namespace shardweld::layout {

/// One axis of a patch: logical indices [lo, lo + extent), `stride` storage elements apart.
struct Axis {
    Index lo = 0;
    Index extent = 0;
    Index stride = 0;
    [[nodiscard]] Range range() const { return {lo, extent}; }
    friend bool operator==(const Axis&, const Axis&) = default;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.lo, self.extent, self.stride);
    };
};

/// Logical index i (lo_k <= i_k < lo_k + extent_k) is stored at offset + sum_k (i_k - lo_k) *
/// stride_k.
struct Patch {
    Index offset = 0;
    InlineVector<Axis, kMaxAxes, kUsualAxes> axes;

    /// Number of elements (1 for a scalar).
    [[nodiscard]] Index volume() const;
    friend bool operator==(const Patch&, const Patch&) = default;
};

/// All of a tensor of this shape.
Box whole_box(std::span<const Index> shape);

/// The box that a patch is of.
Box box_of(const Patch& p);

/// Row-major patch over a box. Throws Error(corrupt) when its volume overflows.
Patch dense(const Box& box, Index offset = 0);
/// Row-major patch over a whole shape.
Patch dense_shape(std::span<const Index> shape, Index offset = 0);

/// p restricted to `box` (one range per axis); nullopt when they do not meet.
std::optional<Patch> clip(const Patch& p, const Box& box);

/// One box of a row-major range and the position of its first element.
struct RangeBox {
    Box box;
    Index begin = 0;
};
/// The row-major range [begin, end) of `shape` as at most 2 * rank - 1 boxes, in order. Throws
/// Error(mismatch) when the range lies outside the shape.
std::vector<RangeBox> boxes_of_range(Index begin, Index end, std::span<const Index> shape);

/// Storage holds positions [begin, end) of the row-major enumeration of `box`, densely, from
/// `offset`. Throws as boxes_of_range does.
std::vector<Patch> flat(const Box& box, Index begin, Index end, Index offset = 0);

/// p as slice `at` of a new axis k.
Patch embed(const Patch& p, std::size_t k, Index at);

/// "7 + [0,4)*3 [2,5)*1" for messages and tests.
std::string to_text(const Patch& p);

/// Storage addresses of p, as the smallest one and the distance to one past the largest. Throws
/// Error(internal) for an empty patch or a negative stride, Error(corrupt) on overflow.
Range address_span(const Patch& p);

}  // namespace shardweld::layout

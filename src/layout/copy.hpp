// The layout algebra's executed value: a strided loop nest from one storage to another. Moves
// elements of 1, 2, 4 or 8 bytes unchanged.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/index.hpp"

#include "patch.hpp"

namespace shardweld::layout {

/// One loop of a nest; strides in elements.
struct Loop {
    Index extent = 0;
    Index src_stride = 0;
    Index dst_stride = 0;
    friend bool operator==(const Loop&, const Loop&) = default;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.extent, self.src_stride, self.dst_stride);
    };
};

/// In normal form hardly any copy has more than three.
using Loops = InlineVector<Loop, kMaxAxes, 3>;

/// dst[dst_offset + sum(j * dst_stride)] = src[src_offset + sum(j * src_stride)] for every j of the
/// nest.
struct Copy {
    Index src_offset = 0;
    Index dst_offset = 0;
    Loops loops;

    [[nodiscard]] Index volume() const;
    friend bool operator==(const Copy&, const Copy&) = default;
};

/// The elements both patches hold (same axes in the same order), in normal form; nullopt if none.
std::optional<Copy> overlap(const Patch& src, const Patch& dst);

/// Canonical form: no unit loops, outermost = largest dst stride (ties: largest src stride),
/// mergeable neighbours merged.
Copy normal(const Copy& copy);

/// copy = unpack after pack through a dense message of volume() elements (order of the loops).
std::pair<Copy, Copy> pack_unpack(const Copy& copy);

/// The part of `copy` whose dst (or src) addresses lie in [begin, end), as copies with unchanged
/// addressing, each in normal form. Requires that the side's addresses are in the lexicographic
/// order of its loops sorted by that side's stride (true whenever the side does not overlap
/// itself); throws Error(unsupported) otherwise.
std::vector<Copy> restrict_dst(const Copy& copy, Index begin, Index end);
std::vector<Copy> restrict_src(const Copy& copy, Index begin, Index end);

/// The part of `copy` that writes to `range`, as restrict_dst gives it, with destination addresses
/// counted from where the range begins.
std::vector<Copy> part_in(const Copy& copy, const Range& range);

/// The copy back, from the destination to the source.
Copy turned(Copy copy);

/// The addresses of a side, as its smallest one and the distance to one past its largest (0 when
/// the copy moves nothing). Throws Error(corrupt) when they do not fit an Index.
Range src_span(const Copy& copy);
Range dst_span(const Copy& copy);

/// Executes the copy. `element_bytes` is 1, 2, 4 or 8. Every address of the nest must lie inside
/// the spans: checked once per call on the spans' extents, Error(internal) otherwise. Near memcpy
/// speed for contiguous runs, blocked for transposes.
void run(const Copy& copy, std::size_t element_bytes, ByteView src, ByteSpan dst);

/// Compares instead of copying: number of elements of the nest whose bytes differ.
Index count_different(const Copy& copy, std::size_t element_bytes, ByteView src, ByteView dst);

/// "5 -> 0: 4x(8,2) 2x(1,1)" for messages and tests.
std::string to_text(const Copy& copy);

}  // namespace shardweld::layout

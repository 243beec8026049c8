// Law 6 of the layout algebra: do boxes cover a tensor exactly once?
// Pure geometry; leaves the words of an error to the caller.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/index.hpp"

#include "patch.hpp"

namespace shardweld::layout {

/// A box of a tensor by views of its offsets and sizes; it lies inside the tensor.
struct CoverBox {
    std::span<const Index> offsets;
    std::span<const Index> sizes;
};

/// The ways in which boxes fill a tensor, or fail to.
enum class CoverKind {
    exact,
    gap,       ///< some elements between `lo` and `hi` are in no box
    overlap,   ///< boxes `first` and `second` share elements
    irregular  ///< too many boxes that form neither a grid nor slabs: not checked
};

/// How boxes fill a tensor, and the first fault where they do not.
struct Cover {
    CoverKind kind = CoverKind::exact;
    std::vector<Index> lo;
    std::vector<Index> hi;
    std::size_t first = 0;
    std::size_t second = 0;
    std::size_t n_looks = 0;  ///< at boxes: what finding out has cost
};

/// Empty boxes are left out. Near linear in the number of boxes for tilings that can be cut apart
/// axis by axis (all grids and row splits). Error(corrupt) when a volume overflows.
Cover check_cover(std::span<const Index> shape, std::span<const CoverBox> boxes);

/// Looks at patches inside the box of `whole`; a gap is counted from where that begins.
Cover check_cover(const Patch& whole, std::span<const Patch* const> parts);

}  // namespace shardweld::layout

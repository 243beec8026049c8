// A copy seen from the tensor on one of its sides: its elements as boxes of that tensor.
#pragma once

#include <span>
#include <vector>

#include "copy.hpp"

namespace shardweld::layout {

/// The elements that a copy reads of a row-major tensor of this shape, as patches over the tensor's
/// axes whose storage is the copy's destination. Each element is in one of them, once; there are as
/// few as whole axes allow. Requires that all source addresses lie in the tensor and differ.
std::vector<Patch> unfold_src(const Copy& copy, std::span<const Index> shape);

/// The elements that a copy writes of the tensor, as unfold_src has those it reads: the patches'
/// storage is the copy's source.
std::vector<Patch> unfold_dst(const Copy& copy, std::span<const Index> shape);

/// The shape with axes in two where a loop of the copy's source steps over several of their
/// indices: a tensor of the same elements, in which the copy has fewer boxes.
std::vector<Index> divided_src(const Copy& copy, std::vector<Index> shape);

}  // namespace shardweld::layout

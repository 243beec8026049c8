// A bound layout's tree, flattened: what lower() walks.
#pragma once

#include <cstddef>

#include "core/index.hpp"

#include "expression.hpp"

namespace shardweld::layout {

struct BoundLayout::Node {
    enum class NodeKind { axis, product, sum };

    NodeKind kind = NodeKind::axis;
    std::size_t first_child = 0;  ///< the children of a product or a sum stand next to each other
    std::size_t n_children = 0;
    Index extent = 1;
    Index begin = 0;   ///< of a sum's child: where it begins in the sum
    int segment = -1;  ///< of a sum's child: the segment its label names, -1 for an inner label
};

}  // namespace shardweld::layout

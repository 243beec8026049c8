// All ways through a layout's sums, one per segment.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "expression.hpp"

namespace shardweld::layout {

/// One way: the last label on it, where that is written, and the axes in the order they are met.
struct SegmentPath {
    std::string label;
    std::size_t column = 1;
    std::vector<const LayoutItem*> axes;
};

/// Calls visit(path) for every way, in the order of the text.
void for_each_segment(const Layout& layout, const std::function<void(const SegmentPath&)>& visit);

}  // namespace shardweld::layout

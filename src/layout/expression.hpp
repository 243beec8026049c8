// Layout text, products of sums of products over named axes, e.g. "(g [q: p d | k: d | v: d]) h".
// Compiled to patches per segment.
//
//   layout := [label ':'] dim+                      one dim per axis of the stored tensor
//   dim    := name | '*' | '(' item* ')' | sum      item := name | '*' | sum
//   sum    := '[' label ':' item* ('|' label ':' item*)* ']'     segments one after another
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"
#include "core/shared_list.hpp"

#include "patch.hpp"

namespace shardweld::layout {

struct Segment;

/// A named axis ("*" is the one extent solved from a stored shape), or a sum when `segments` is not
/// empty.
struct LayoutItem {
    std::string name;
    std::vector<Segment> segments;
    std::size_t column = 0;  ///< where it is written, counted from 1, for messages
};

/// A labelled term of a sum.
struct Segment {
    std::string label;
    std::vector<LayoutItem> items;
    std::size_t column = 0;
};

using Dim = std::vector<LayoutItem>;

/// A parsed layout. `label` names the segment of a layout without sums on its way ("" if not
/// given).
struct Layout {
    std::string label;
    SharedList<Dim> dims;  ///< many tensors have one and the same
    std::string text;      ///< as written, for messages
};

/// Parses; throws Error(usage) naming the column on bad syntax, nesting deeper than 16, an axis
/// named twice on the way to one segment, a segment label used twice, more than one '*', more than
/// kMaxAxes dims, factors of a product or axes of a segment, or more than 4096 characters.
Layout parse_layout(std::string_view text);

/// A segment (leaf of the sums) and the names of its axes, sorted by name.
struct SegmentAxes {
    std::string label;
    std::vector<std::string> axes;
    friend bool operator==(const SegmentAxes&, const SegmentAxes&) = default;
};

/// All segments in the order of the text. An axis '*' appears under the name "*".
std::vector<SegmentAxes> segments_of(const Layout& layout);

/// The layout with one more dim `axis` in front (the "stacked" form of a rule). Throws as
/// parse_layout does when the layout has that axis already.
Layout with_leading_axis(const Layout& layout, const std::string& axis);

/// Extent of a named axis; throws (any Error) when it is not known.
using ExtentOf = std::function<Index(const std::string&)>;

/// A patch of one segment: axes in the order of SegmentAxes::axes.
struct SegmentPatch {
    int segment = 0;
    Patch patch;
    friend bool operator==(const SegmentPatch&, const SegmentPatch&) = default;
};

/// A layout with all extents known; lowers patches of the stored space to patches of its segments.
class BoundLayout {
  public:
    /// Binds the extents. With `stored`, the shape must agree: '*' is solved from it and must
    /// divide exactly; any other disagreement is Error(mismatch) saying found and expected shape
    /// and the extents used. Without `stored`, a '*' is Error(usage). Extents below 0 are
    /// Error(mismatch); 0 is allowed (an empty segment).
    static BoundLayout bind(const Layout& layout, const ExtentOf& extent_of,
                            std::optional<std::span<const Index>> stored = std::nullopt);

    [[nodiscard]] const std::vector<Index>& shape() const { return shape_; }
    [[nodiscard]] const std::vector<SegmentAxes>& segments() const { return segments_; }
    /// Extents of a segment's axes, in their order.
    [[nodiscard]] const std::vector<Index>& extents(int segment) const {
        return extents_[static_cast<std::size_t>(segment)];
    }

    /// A patch over the stored space (one axis per dim) as patches of its segments, appended to
    /// `out` in the order of the text. Throws Error(mismatch) when the patch lies outside it.
    void lower(const Patch& stored, std::vector<SegmentPatch>& out) const;

  private:
    /// One of the tree that lower() walks, flattened.
    struct LayoutNode {
        enum class NodeKind { axis, product, sum };

        NodeKind kind = NodeKind::axis;
        std::size_t first_child = 0;  ///< children of a product or a sum stand next to each other
        std::size_t n_children = 0;
        Index extent = 1;
        Index begin = 0;   ///< of a sum's child: where it begins in the sum
        int segment = -1;  ///< of a sum's child: the segment its label names, -1: an inner label
    };
    class Builder;
    class Walk;
    std::vector<LayoutNode> nodes_;
    std::vector<std::size_t> dim_roots_;
    std::vector<Index> shape_;
    std::vector<SegmentAxes> segments_;
    std::vector<std::vector<Index>> extents_;
    std::vector<std::vector<std::size_t>> slots_;  // per segment: axis as met -> axis by name
};

}  // namespace shardweld::layout

#include "padding.hpp"

#include <algorithm>

#include "catalogue/tensor.hpp"

namespace shardweld::plan {

namespace {

constexpr const char* kStar = "*";

/// The extent of the layout's `*` in a segment of it; 0 where the segment has none.
Index star_extent(const layout::SegmentAxes& segment, const std::vector<Index>& extents) {
    const auto star = std::find(segment.axes.begin(), segment.axes.end(), kStar);
    return star == segment.axes.end()
               ? 0
               : extents[static_cast<std::size_t>(star - segment.axes.begin())];
}

/// The dim in which the `*` stands.
std::size_t star_dim(const layout::Layout& layout) {
    const auto holds_star = [](const layout::Dim& dim) {
        const auto segments = layout::segments_of({"", {dim}, ""});
        return std::any_of(segments.begin(), segments.end(), [](const auto& segment) {
            return std::find(segment.axes.begin(), segment.axes.end(), kStar) != segment.axes.end();
        });
    };
    const auto found = std::find_if(layout.dims.begin(), layout.dims.end(), holds_star);
    return static_cast<std::size_t>(found - layout.dims.begin());
}

Index dropped_of(const catalogue::Tensor& tensor, const StoreMatch& match, const Model& model) {
    const models::Line& line = *match.line;
    const auto bound = layout::BoundLayout::bind(
        line.layout,
        [&](const std::string& axis) { return model.symbols->value(axis, match.captures); },
        tensor.shape);
    Index dropped = 0;
    int number = 0;
    for (const layout::SegmentAxes& segment : layout::segments_of(line.layout)) {
        if (std::find(line.drop.begin(), line.drop.end(), segment.label) != line.drop.end()) {
            dropped += star_extent(segment, bound.extents(number));
        }
        ++number;
    }
    return dropped;
}

}  // namespace

void add_padding(const catalogue::Tensor& tensor, const StoreMatch& match, const Model& model,
                 std::vector<Padding>& out) {
    const models::Line& line = *match.line;
    const Index dropped = line.drop.empty() ? 0 : dropped_of(tensor, match, model);
    if (dropped == 0) {
        return;
    }
    const auto below =
        line.below == nullptr ? std::nullopt : model.symbols->try_expr(line.below, match.captures);
    out.push_back({tensor.name, tensor.shape[star_dim(line.layout)] - dropped, dropped, below});
}

}  // namespace shardweld::plan

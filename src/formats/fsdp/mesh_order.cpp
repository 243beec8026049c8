#include "mesh_order.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "../containers/torch_storage.hpp"
#include "mesh_layout.hpp"
#include "short_list.hpp"

namespace shardweld::formats::fsdp {

namespace {

const std::string kStrides = "the strides of a DeviceMesh";

/// One dimension: several factors where it was made by flattening, outermost first.
struct FlattenedDim {
    std::vector<Index> extents;
    std::vector<Index> strides;
};

std::vector<Index> factors(const PickleValue& value) {
    return is_sequence(value) ? short_counts(value, kStrides)
                              : std::vector<Index>{read_count(value, kStrides)};
}

// Empty where the strides are not told.
std::vector<FlattenedDim> axes_of(const PickleValue& layout) {
    std::vector<FlattenedDim> axes;
    for (const MeshAxis& axis : mesh_axes(layout).value_or(std::vector<MeshAxis>())) {
        if (axis.stride == nullptr) {
            return {};
        }
        axes.push_back({factors(*axis.shape), factors(*axis.stride)});
        if (axes.back().extents.size() != axes.back().strides.size()) {
            return {};
        }
    }
    return axes;
}

std::vector<FlattenedDim> row_major(const RankMesh& mesh) {
    std::vector<FlattenedDim> axes;
    Index stride = 1;
    for (std::size_t d = mesh.extents.size(); d-- > 0;) {
        axes.insert(axes.begin(), {{mesh.extents[d]}, {stride}});
        stride *= mesh.extents[d];
    }
    return axes;
}

Index offset_of(const FlattenedDim& axis, Index at) {
    Index offset = 0;
    for (std::size_t i = axis.extents.size(); i-- > 0 && axis.extents[i] > 0;) {
        offset = checked_add(offset, checked_mul(at % axis.extents[i], axis.strides[i], kStrides),
                             kStrides);
        at /= axis.extents[i];
    }
    return offset;
}

using MeshRanks = std::span<const PickleValue* const>;

/// nullopt outside of the list.
std::optional<Index> rank_at(MeshRanks ranks, Index position) {
    if (position < 0 || position >= static_cast<Index>(ranks.size())) {
        return std::nullopt;
    }
    return read_count(*ranks[static_cast<std::size_t>(position)], "a rank of the DeviceMesh");
}

enum class Order { ascending, other, outside };

Order order_along(MeshRanks ranks, const FlattenedDim& axis, Index extent, Index begin) {
    auto order = Order::ascending;
    Index last = -1;
    for (Index at = 0; at < extent; ++at) {
        const auto rank = rank_at(ranks, checked_add(begin, offset_of(axis, at), kStrides));
        if (!rank) {
            return Order::outside;
        }
        order = *rank > last ? order : Order::other;
        last = *rank;
    }
    return order;
}

std::optional<Index> position_of(MeshRanks ranks, Index rank) {
    const auto at = std::find_if(ranks.begin(), ranks.end(), [&](const PickleValue* value) {
        return value->kind == PickleKind::integer && value->integer == rank;
    });
    return at == ranks.end() ? std::nullopt : std::optional<Index>(at - ranks.begin());
}

bool keeps_order(const PickleValue& mesh) {
    const PickleValue* const keeps = mesh.attribute("_preserve_rank_order");
    return keeps != nullptr && keeps->kind == PickleKind::boolean && keeps->integer != 0;
}

}  // namespace

std::vector<bool> ascending_dims(const PickleValue& mesh, const RankMesh& known) {
    std::vector<bool> ascending(known.extents.size(), true);
    const PickleValue* list = mesh.attribute("_flatten_rank_map");
    const PickleValue* const layout = mesh_attribute(mesh, "layout");
    const bool is_laid_out = list != nullptr && layout != nullptr;
    list = is_laid_out ? list : mesh.attribute("_flatten_mesh_list");
    if (list == nullptr || !known.rank || keeps_order(mesh)) {
        return ascending;
    }
    const std::vector<FlattenedDim> axes = is_laid_out ? axes_of(*layout) : row_major(known);
    const auto own = position_of(list->elements(), *known.rank);
    if (!own || axes.size() != known.extents.size()) {
        return ascending;
    }
    for (std::size_t d = 0; d < axes.size(); ++d) {
        const Index begin = *own - offset_of(axes[d], known.coordinate[d]);
        const Order order = order_along(list->elements(), axes[d], known.extents[d], begin);
        if (order == Order::outside) {
            throw Error(ErrorCode::corrupt,
                        "its DeviceMesh " + mesh_text(known) + " puts this file's rank at " +
                            shape_text(known.coordinate) + ", which contradicts its list of " +
                            std::to_string(list->elements().size()) + " ranks");
        }
        ascending[d] = order == Order::ascending;
    }
    return ascending;
}

}  // namespace shardweld::formats::fsdp

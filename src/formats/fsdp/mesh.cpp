#include "mesh.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/text.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/containers/torch_storage.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::fsdp {

PickleValues short_list(const PickleValue& value, std::string_view what) {
    if (!value.is_list() || value.elements().size() > kLongestList) {
        throw Error(ErrorCode::corrupt, std::string(what) + " is " + describe(value) + " of " +
                                            std::to_string(value.elements().size()) +
                                            " elements, expected a short tuple or list");
    }
    return value.elements();
}

void read_short_counts(const PickleValue& value, std::string_view what,
                       std::vector<Index>& counts) {
    const auto elements = short_list(value, what);
    counts.clear();
    counts.reserve(elements.size());
    for (const PickleValue* const element : elements) {
        counts.push_back(read_count(*element, what));
    }
}

std::vector<Index> short_counts(const PickleValue& value, std::string_view what) {
    std::vector<Index> counts;
    read_short_counts(value, what, counts);
    return counts;
}

RankMesh mesh_by_hand(const Mesh& mesh, Index rank, Index world) {
    RankMesh made{mesh.shape, mesh.names, std::vector<Index>(mesh.shape.size(), 0), rank, {}};
    if (volume_of(mesh.shape, "--mesh_shape") != world || rank >= world) {
        throw Error(ErrorCode::usage,
                    "--mesh_shape " + shape_text(mesh.shape) + " has " +
                        std::to_string(volume_of(mesh.shape, "--mesh_shape")) +
                        " ranks, but the checkpoint has " + std::to_string(world),
                    "give a mesh of that many ranks");
    }
    for (std::size_t d = mesh.shape.size(); d-- > 0;) {
        made.coordinate[d] = rank % mesh.shape[d];
        rank /= mesh.shape[d];
    }
    return made;
}

RankMesh part_of_mesh(const RankMesh& whole, const std::vector<std::string>& names) {
    RankMesh part;
    part.rank = whole.rank;
    for (const std::string& name : names) {
        const auto at = std::ranges::find(whole.names, name);
        if (at == whole.names.end()) {
            throw Error(ErrorCode::mismatch,
                        "it is placed over the mesh dimension '" + name +
                            "', which the mesh on the command line (" + mesh_text(whole) +
                            ") does not have",
                        "name that dimension too: --mesh_dim_names");
        }
        const auto d = static_cast<std::size_t>(at - whole.names.begin());
        part.names.push_back(name);
        part.extents.push_back(whole.extents[d]);
        part.coordinate.push_back(whole.coordinate[d]);
    }
    return part;
}

bool is_replicating(std::string_view name) {
    return name == "ddp" || name == "dp_replicate" || name == "replicate";
}

MeshDims dims_of(const RankMesh& mesh) {
    MeshDims dims;
    for (const std::size_t d : indices(mesh.extents)) {
        dims.push_back({mesh.names.empty() ? "" : mesh.names[d], mesh.extents[d]});
    }
    return dims;
}

std::string mesh_text(const MeshDims& dims) {
    std::string text;
    for (const auto& [name, extent] : dims) {
        text += text.empty() ? "" : " x ";
        text += name.empty() ? "" : name + " ";
        text += std::to_string(extent);
    }
    return text;
}

std::string mesh_text(const RankMesh& mesh) {
    return mesh_text(dims_of(mesh));
}

namespace {

/// One dimension: a number, or several where it was made by flattening, outermost first.
struct MeshAxis {
    const PickleValue* shape;
    const PickleValue* stride;  ///< nullptr where the layout does not tell it
};

const std::string kLayout = "the layout of a DeviceMesh";

[[noreturn]] void refuse_layout(const std::string& what) {
    throw Error(ErrorCode::corrupt, "its DeviceMesh has " + what);
}

/// An attribute of a mesh or of its layout; nullptr when it is absent or None. Between versions
/// attributes lost or gained a leading underscore.
const PickleValue* mesh_attribute(const PickleValue& object, const std::string& name) {
    const PickleValue* const value = object.attribute("_" + name);
    const PickleValue* const found = value != nullptr ? value : object.attribute(name);
    return found == nullptr || found->kind == PickleKind::none ? nullptr : found;
}

// Axes of one layout each.
std::vector<MeshAxis> listed_axes(const PickleValue& axes) {
    std::vector<MeshAxis> read;
    for (const PickleValue* const axis : short_list(axes, kLayout)) {
        const PickleValue* const shape = mesh_attribute(*axis, "shape");
        if (shape == nullptr) {
            refuse_layout("an axis without a shape");
        }
        read.push_back({shape, mesh_attribute(*axis, "stride")});
    }
    return read;
}

// One shape and one stride for all axes; a single axis may do without the tuples.
std::vector<MeshAxis> nested_axes(const PickleValue& shape, const PickleValue* stride) {
    if (!shape.is_list()) {
        return {{&shape, stride}};
    }
    const auto shapes = short_list(shape, kLayout);
    const auto strides = stride == nullptr ? PickleValues() : short_list(*stride, kLayout);
    std::vector<MeshAxis> read;
    for (const std::size_t d : indices(shapes)) {
        read.push_back({shapes[d], strides.size() == shapes.size() ? strides[d] : nullptr});
    }
    return read;
}

std::vector<MeshAxis> paired_axes(const PickleValue& pairs) {
    std::vector<MeshAxis> read;
    for (const PickleValue* const pair : short_list(pairs, kLayout)) {
        const auto parts = pair->elements();
        if (parts.size() != 2) {
            refuse_layout("a layout that is not pairs of size and stride");
        }
        read.push_back({parts[0], parts[1]});
    }
    return read;
}

/// The dimensions, outermost first; nullopt when the layout is of no known spelling. Error(corrupt)
/// when it is malformed.
std::optional<std::vector<MeshAxis>> mesh_axes(const PickleValue& layout) {
    if (const PickleValue* const axes = mesh_attribute(layout, "axes")) {
        return listed_axes(*axes);
    }
    if (const PickleValue* const shape = mesh_attribute(layout, "shape")) {
        return nested_axes(*shape, mesh_attribute(layout, "stride"));
    }
    if (const PickleValue* const pairs = mesh_attribute(layout, "sizes_and_strides")) {
        return paired_axes(*pairs);
    }
    return std::nullopt;
}

const std::string kExtents = "the shape of a DeviceMesh";

[[noreturn]] void fail_mesh(const std::string& message) {
    throw Error(ErrorCode::corrupt, "its DeviceMesh " + message);
}

// 4, (4,), or the factors of a dimension made by flattening: (2, 2).
std::vector<Index> factors(const PickleValue& value, const std::string& what) {
    return value.is_list() ? short_counts(value, what)
                           : std::vector<Index>{read_count(value, what)};
}

std::vector<Index> read_extents_of_mesh(const TorchFile& file, const PickleValue& mesh) {
    const PickleValue* const layout = mesh_attribute(mesh, "layout");
    if (const auto axes = layout == nullptr ? std::nullopt : mesh_axes(*layout)) {
        return collect_list(*axes, [&](const MeshAxis& axis) {
            return volume_of(factors(*axis.shape, kExtents), kExtents);
        });
    }
    if (const PickleValue* const ranks = mesh_attribute(mesh, "mesh")) {
        if (const auto tensor = file.tensor(*ranks)) {
            return tensor->shape;
        }
    }
    fail_mesh("is " + describe(mesh) + " without a shape");
}

void check_extents(const std::vector<Index>& extents) {
    const bool is_grid =
        !extents.empty() && std::ranges::all_of(extents, [](Index extent) { return extent > 0; });
    if (!is_grid) {
        fail_mesh("has shape " + shape_text(extents));
    }
    volume_of(extents, "the DeviceMesh");
}

Index position_in(const RankMesh& mesh) {
    Index position = 0;
    for (const std::size_t d : indices(mesh.extents)) {
        position = position * mesh.extents[d] + mesh.coordinate[d];
    }
    return position;
}

// The global rank: as newer versions say it, or by the coordinate from the list of all ranks.
std::optional<Index> read_rank(const PickleValue& mesh, const RankMesh& known) {
    if (const PickleValue* const rank = mesh.attribute("_rank");
        rank != nullptr && rank->kind == PickleKind::integer) {
        return read_count(*rank, "the rank of the DeviceMesh");
    }
    const PickleValue* const list = mesh.attribute("_flatten_mesh_list");
    const auto at = static_cast<std::size_t>(position_in(known));
    if (list == nullptr || at >= list->elements().size()) {
        return std::nullopt;
    }
    return read_count(*list->elements()[at], "a rank of the DeviceMesh");
}

const std::string kStrides = "the strides of a DeviceMesh";

/// One dimension: several factors where it was made by flattening, outermost first.
struct FlattenedDim {
    std::vector<Index> extents;
    std::vector<Index> strides;
};

// Empty where the strides are not told.
std::vector<FlattenedDim> axes_of(const PickleValue& layout) {
    std::vector<FlattenedDim> axes;
    for (const MeshAxis& axis : mesh_axes(layout).value_or(std::vector<MeshAxis>())) {
        if (axis.stride == nullptr) {
            return {};
        }
        axes.push_back({factors(*axis.shape, kStrides), factors(*axis.stride, kStrides)});
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

/// nullopt outside of the list.
std::optional<Index> rank_at(PickleValues ranks, Index position) {
    if (position < 0 || position >= std::ssize(ranks)) {
        return std::nullopt;
    }
    return read_count(*ranks[static_cast<std::size_t>(position)], "a rank of the DeviceMesh");
}

/// Whether the ranks along an axis ascend; nullopt: it leaves their list.
std::optional<bool> ascends(PickleValues ranks, const FlattenedDim& axis, Index extent,
                            Index begin) {
    bool is_ascending = true;
    Index last = -1;
    for (Index at = 0; at < extent; ++at) {
        const auto rank = rank_at(ranks, checked_add(begin, offset_of(axis, at), kStrides));
        if (!rank) {
            return std::nullopt;
        }
        is_ascending = is_ascending && *rank > last;
        last = *rank;
    }
    return is_ascending;
}

std::optional<Index> position_of(PickleValues ranks, Index rank) {
    const auto at = std::ranges::find_if(ranks, [&](const PickleValue* value) {
        return value->kind == PickleKind::integer && value->integer == rank;
    });
    return at == ranks.end() ? std::nullopt : std::optional<Index>(at - ranks.begin());
}

bool keeps_order(const PickleValue& mesh) {
    const PickleValue* const keeps = mesh.attribute("_preserve_rank_order");
    return keeps != nullptr && keeps->kind == PickleKind::boolean && keeps->integer != 0;
}

/// For each dimension of `known`, which was read from `mesh`: whether the ranks along it through
/// the file's rank ascend. torch's process groups sort their members, so along other dimensions
/// collectives number the parts otherwise than the mesh does. Dimensions count as ascending where
/// the file lists no ranks or keeps the mesh's order in its groups. Error(corrupt) when the layout
/// leaves the list of ranks.
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
    for (const std::size_t d : indices(axes)) {
        const Index begin = *own - offset_of(axes[d], known.coordinate[d]);
        const auto is_ascending = ascends(list->elements(), axes[d], known.extents[d], begin);
        if (!is_ascending) {
            throw Error(ErrorCode::corrupt,
                        "its DeviceMesh " + mesh_text(known) + " puts this file's rank at " +
                            shape_text(known.coordinate) + ", which contradicts its list of " +
                            std::to_string(list->elements().size()) + " ranks");
        }
        ascending[d] = *is_ascending;
    }
    return ascending;
}

}  // namespace

std::vector<std::string> mesh_dim_names(const PickleValue& mesh) {
    std::vector<std::string> names;
    if (const PickleValue* const list = mesh_attribute(mesh, "mesh_dim_names")) {
        for (const PickleValue* const name : short_list(*list, "the names of a DeviceMesh")) {
            names.emplace_back(printable(name->text(), 60));
        }
    }
    return names;
}

RankMesh read_mesh(const TorchFile& file, const PickleValue& mesh) {
    RankMesh read;
    read.extents = read_extents_of_mesh(file, mesh);
    check_extents(read.extents);
    read.names = mesh_dim_names(mesh);
    if (read.names.size() != read.extents.size()) {
        read.names.clear();
    }
    const PickleValue* const coordinate = mesh_attribute(mesh, "coordinate_on_dim");
    if (coordinate == nullptr) {
        fail_mesh("does not state the position of this file's rank (_coordinate_on_dim)");
    }
    read.coordinate = short_counts(*coordinate, "a coordinate of a DeviceMesh");
    bool is_inside = read.coordinate.size() == read.extents.size();
    for (std::size_t d = 0; is_inside && d < read.extents.size(); ++d) {
        is_inside = read.coordinate[d] < read.extents[d];
    }
    if (!is_inside) {
        fail_mesh("has shape " + shape_text(read.extents) + " but puts this file's rank at " +
                  shape_text(read.coordinate));
    }
    read.rank = read_rank(mesh, read);
    read.ascending = ascending_dims(mesh, read);
    return read;
}

}  // namespace shardweld::formats::fsdp

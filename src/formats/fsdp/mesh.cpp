#include "mesh.hpp"

#include <algorithm>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "../containers/torch_storage.hpp"
#include "mesh_layout.hpp"
#include "mesh_order.hpp"
#include "short_list.hpp"

namespace shardweld::formats::fsdp {

namespace {

const std::string kExtents = "the shape of a DeviceMesh";

[[noreturn]] void fail_mesh(const std::string& message) {
    throw Error(ErrorCode::corrupt, "its DeviceMesh " + message);
}

// 4, (4,), or the factors of a dimension made by flattening: (2, 2).
Index extent_of(const PickleValue& value) {
    return is_sequence(value) ? volume_of(short_counts(value, kExtents), kExtents)
                              : read_count(value, kExtents);
}

std::vector<Index> read_extents_of_mesh(const TorchFile& file, const PickleValue& mesh) {
    const PickleValue* const layout = mesh_attribute(mesh, "layout");
    if (const auto axes = layout == nullptr ? std::nullopt : mesh_axes(*layout)) {
        std::vector<Index> extents;
        for (const MeshAxis& axis : *axes) {
            extents.push_back(extent_of(*axis.shape));
        }
        return extents;
    }
    if (const PickleValue* const ranks = mesh_attribute(mesh, "mesh")) {
        if (const auto tensor = file.tensor(*ranks)) {
            return tensor->shape;
        }
    }
    fail_mesh("is " + describe(mesh) + " without a shape");
}

void check_extents(const std::vector<Index>& extents) {
    const bool is_grid = !extents.empty() && std::all_of(extents.begin(), extents.end(),
                                                         [](Index extent) { return extent > 0; });
    if (!is_grid) {
        fail_mesh("has shape " + shape_text(extents));
    }
    volume_of(extents, "the DeviceMesh");
}

Index position_in(const RankMesh& mesh) {
    Index position = 0;
    for (std::size_t d = 0; d < mesh.extents.size(); ++d) {
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
        const auto at = std::find(whole.names.begin(), whole.names.end(), name);
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

std::string mesh_text(const RankMesh& mesh) {
    std::string text;
    for (std::size_t d = 0; d < mesh.extents.size(); ++d) {
        text += d == 0 ? "" : " x ";
        text += mesh.names.empty() ? "" : mesh.names[d] + " ";
        text += std::to_string(mesh.extents[d]);
    }
    return text;
}

std::vector<catalogue::MeshDim> dims_in_text(std::string_view text) {
    constexpr std::string_view kTimes = " x ";
    std::vector<catalogue::MeshDim> dims;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(kTimes), text.size());
        const std::string_view dim = text.substr(0, end);
        const std::size_t number = dim.rfind(' ') + 1;  // 0 where there is no name
        const auto extent = parse_index(dim.substr(number));
        if (!extent || *extent < 1) {
            return {};
        }
        dims.push_back({std::string(trim(dim.substr(0, number))), *extent});
        text.remove_prefix(std::min(end + kTimes.size(), text.size()));
    }
    return dims;
}

}  // namespace shardweld::formats::fsdp

#include "rank_mesh.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::fsdp {

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

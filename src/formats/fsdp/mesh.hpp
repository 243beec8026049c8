// torch's DeviceMesh: the grid of ranks over which a DTensor is placed.
// Knows its pickled spellings of torch 2.2 to 2.15; nothing of placements.
// Source: torch/distributed/device_mesh.py and _mesh_layout.py of these versions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardweld/formats/containers/pickle.hpp"
#include "shardweld/formats/containers/torch_file.hpp"
#include "shardweld/formats/format.hpp"

namespace shardweld::formats::fsdp {

/// A mesh and where one rank stands in it.
struct RankMesh {
    std::vector<Index> extents;      ///< outermost first; each at least 1
    std::vector<std::string> names;  ///< as many as extents, or none
    std::vector<Index> coordinate;   ///< as many as extents; each below its extent
    std::optional<Index> rank;       ///< global rank, where the file tells it
    std::vector<bool> ascending;     ///< as many as extents, or none: whether ranks ascend there
};

/// The DeviceMesh in a file. Error(corrupt) when it is malformed or its rank is outside of it.
RankMesh read_mesh(const TorchFile& file, const PickleValue& mesh);

/// The names of a DeviceMesh's dimensions; empty when it has none.
std::vector<std::string> mesh_dim_names(const PickleValue& mesh);

/// A mesh given by hand, at `rank` (ranks row-major). Error(usage) when it has not `world` ranks.
RankMesh mesh_by_hand(const Mesh& mesh, Index rank, Index world);

/// The dimensions of `whole` that are called as those of `part`, in the order of `part`.
/// Error(mismatch) when one is not there.
RankMesh part_of_mesh(const RankMesh& whole, const std::vector<std::string>& names);

/// Whether the ranks along a dimension of this name hold copies of one another.
bool is_replicating(std::string_view name);

/// "fsdp 4", "ddp 2 x fsdp 4", "2 x 4".
std::string mesh_text(const RankMesh& mesh);

/// The dims in such a text; empty when it is none.
std::vector<catalogue::MeshDim> dims_in_text(std::string_view text);

}  // namespace shardweld::formats::fsdp

// The grid of ranks over which a DTensor is placed, and where one rank stands in it.
// Knows names and extents; nothing of files and placements.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.hpp"

namespace shardweld::formats::fsdp {

/// A mesh and where one rank stands in it.
struct RankMesh {
    std::vector<Index> extents;      ///< outermost first; each at least 1
    std::vector<std::string> names;  ///< as many as extents, or none
    std::vector<Index> coordinate;   ///< as many as extents; each below its extent
    std::optional<Index> rank;       ///< global rank, where the file tells it
    std::vector<bool> ascending;     ///< as many as extents, or none: whether ranks ascend there
};

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

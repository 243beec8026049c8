// The grid of ranks over which tensors are placed, where one rank stands in it, and torch's
// DeviceMesh as a file holds it, in the spellings of torch 2.2 to 2.15. Lists are short and
// bounded: hostile files share one long list among many values. Source:
// torch/distributed/device_mesh.py and _mesh_layout.py of these versions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"

namespace shardweld::formats::fsdp {

inline constexpr std::size_t kLongestList = 32;

/// The elements of a tuple or list. Error(corrupt) naming `what` for anything else or a longer one.
PickleValues short_list(const PickleValue& value, std::string_view what);

/// Such elements that are all non-negative numbers.
std::vector<Index> short_counts(const PickleValue& value, std::string_view what);
/// Reads short_counts into `counts`, whose memory is used again.
void read_short_counts(const PickleValue& value, std::string_view what, std::vector<Index>& counts);

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

using MeshDims = std::vector<MeshDim>;

MeshDims dims_of(const RankMesh& mesh);

/// "fsdp 4", "ddp 2 x fsdp 4", "2 x 4".
std::string mesh_text(const MeshDims& dims);
std::string mesh_text(const RankMesh& mesh);

/// The DeviceMesh in a file. Error(corrupt) when it is malformed or its rank is outside of it.
RankMesh read_mesh(const TorchFile& file, const PickleValue& mesh);

/// The names of a DeviceMesh's dimensions; empty when it has none.
std::vector<std::string> mesh_dim_names(const PickleValue& mesh);

}  // namespace shardweld::formats::fsdp

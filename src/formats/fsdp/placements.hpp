// torch's placements: how a DTensor lies on its mesh.
// Knows the pickled classes; the rule they stand for is in owned.hpp.
// Sources: torch 2.15 torch/distributed/tensor/placement_types.py, _dtensor_spec.py; 2.4
// torch/distributed/_tensor/placement_types.py.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "formats/containers/pickle.hpp"

#include "mesh.hpp"
#include "owned.hpp"

namespace shardweld::formats::fsdp {

/// What lies on one mesh dimension.
struct MeshPlacement {
    bool is_shard = false;  ///< otherwise a replica
    bool is_strided = false;
    std::size_t dim = 0;     ///< of the tensor
    Index split_factor = 1;  ///< of a strided shard
    friend auto operator<=>(const MeshPlacement&, const MeshPlacement&) = default;
};

/// `placements` and `shard_order` of a DTensorSpec.
struct Placements {
    std::vector<MeshPlacement> on;   ///< one for each mesh dimension
    std::vector<std::size_t> order;  ///< mesh dimensions in the order in which they cut
    friend auto operator<=>(const Placements&, const Placements&) = default;
};

/// `spec`: a DTensorSpec of a tensor with `n_dims` dimensions; into `read`, whose memory is used
/// again. Error(unsupported) for partial sums and unknown placements, Error(corrupt) when
/// malformed.
void read_placements(const PickleValue& spec, std::size_t n_dims, Placements& read);

/// The cuts of a rank. `mesh` has as many dimensions as there are placements.
std::vector<DimCut> cuts_of(const Placements& placements, const RankMesh& mesh);

/// "(Shard(0), Replicate)".
std::string placements_text(const Placements& placements);

/// The last part of a class's qualified name below torch.distributed ("DTensor"), or "".
std::string_view distributed_class(const PickleValue& value);

}  // namespace shardweld::formats::fsdp

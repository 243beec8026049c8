// How a DTensor lies on its mesh: torch's pickled placements, which elements a rank holds under a
// sequence of shardings, and the pieces that its local tensor is of the global one.
// Sources: torch 2.15 torch/distributed/tensor/placement_types.py (Shard, _StridedShard),
// _utils.py, _dtensor_spec.py; 2.4 torch/distributed/_tensor/placement_types.py.
#pragma once

#include <compare>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/index.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/containers/torch_file.hpp"

#include "mesh.hpp"

namespace shardweld::formats::fsdp {

/// One cut of a tensor dimension: what is left of it by now is divided into `pieces` of equal
/// length, later ones shorter or empty, and a rank takes the one at `coordinate`. With `groups` > 1
/// it is divided into that many groups first, in the same way, and the rank takes its piece of
/// each.
struct DimCut {
    std::size_t dim = 0;   ///< of the tensor
    Index pieces = 1;      ///< extent of the mesh dimension, at least 1
    Index coordinate = 0;  ///< of the rank, below `pieces`
    Index groups = 1;      ///< _StridedShard's split factor, at least 1
};

/// Ascending ranges of one dimension, in the order in which the rank stores them; not empty, not
/// touching.
using Runs = std::vector<layout::Range>;

/// For every dimension of `shape` the runs left after all cuts in order. Error(unsupported) when a
/// dimension falls into more than kMostRuns.
std::vector<Runs> owned(std::span<const Index> shape, std::span<const DimCut> cuts);

inline constexpr std::size_t kMostRuns = 1U << 16U;

/// Elements in all runs.
Index length_of(const Runs& runs);

inline constexpr std::size_t kMostPieces = 1U << 20U;  ///< in one file

/// A piece for each box that the runs of all dimensions span; none when a dimension has no run.
/// `local` holds the elements of the runs in order: its shape is their lengths. Error(unsupported)
/// for more than kMostPieces.
std::vector<Piece> pieces_of(const StoredTensor& local, const std::vector<Runs>& runs);

/// What lies on one mesh dimension.
struct MeshPlacement {
    bool is_shard = false;  ///< otherwise a replica
    bool is_strided = false;
    std::size_t dim = 0;     ///< of the tensor
    Index split_factor = 1;  ///< of a strided shard
    friend auto operator<=>(const MeshPlacement&, const MeshPlacement&) = default;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.is_shard, self.is_strided, self.dim, self.split_factor);
    };
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

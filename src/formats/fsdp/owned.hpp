// Which elements of a tensor a rank holds under a sequence of shardings: torch's rule for DTensors.
// Pure; knows nothing of pickles or files.
// Sources: torch 2.15 torch/distributed/tensor/placement_types.py (Shard, _StridedShard),
// torch/distributed/tensor/_utils.py.
#pragma once

#include <span>
#include <vector>

#include "core/index.hpp"
#include "layout/patch.hpp"

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

}  // namespace shardweld::formats::fsdp

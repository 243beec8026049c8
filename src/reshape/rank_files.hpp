// The files of a legacy Megatron checkpoint: one for each place in its grid of ranks.
// Source: megatron-core megatron/training/checkpointing.py (get_checkpoint_name),
// parallel_state.py.
#pragma once

#include <string>
#include <vector>

#include "core/index.hpp"

#include "destination.hpp"

namespace shardweld::reshape {

/// What a file of one pipeline rank is told apart by.
struct RankPair {
    Index tp = 0;
    Index ep = 0;
};

/// The pairs that there are: ranks of the dense and of the expert grid are the same processes, so
/// that with etp below tp not every tensor-parallel rank has every expert-parallel one. In order.
std::vector<RankPair> rank_pairs(const ParallelSizes& sizes);

/// "release/mp_rank_01_002_003/model_optim_rng.pt".
std::string rank_file(const ParallelSizes& sizes, Index pp, const RankPair& pair);

}  // namespace shardweld::reshape

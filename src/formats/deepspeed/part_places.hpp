// Where the part of a tensor-parallel rank belongs in the whole tensor.
// Knows rules (scan.hpp) and shapes; nothing of files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "flat_groups.hpp"
#include "model_rank.hpp"

namespace shardweld::formats::deepspeed {

struct PartPlace {
    std::vector<Index> shape;  ///< of the whole tensor
    std::vector<LocalBox> boxes;
};

/// By model-parallel rank.
using LocalShapes = std::map<Index, std::vector<Index>>;

/// Of a part that is the whole.
PartPlace place_whole(const std::vector<Index>& local);

/// Of the part of model-parallel rank `mp`, one of `n_tensor_ranks` of its pipeline stage. Shapes
/// that `ranks` do not know are those of `others`. Error(unsupported) where no rule says how to
/// join, Error(mismatch) where the ranks' shapes do not fit together.
PartPlace place_part(const std::string& name, const std::vector<Index>& local, Index mp,
                     Index n_tensor_ranks, const ModelRanks& ranks, const LocalShapes& others);

}  // namespace shardweld::formats::deepspeed

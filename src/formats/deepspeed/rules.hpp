// How tensor-parallel parts of parameters are joined, as the checkpoint itself says it.
// Source: DeepSpeed 0.19.8 deepspeed/checkpoint/constants.py, ds_to_universal.py (merge_tp_slices),
// module_inject/autotp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "formats/containers/pickle.hpp"

#include "scan.hpp"

namespace shardweld::formats::deepspeed {

/// Local shapes by parameter.
using Shapes = std::map<std::string, std::vector<Index>>;

/// Puts a rule (scan.hpp) for each of `shapes` that `info` speaks of among `out`'s tensors; of
/// boxes those of `rank`. Error(corrupt) for what contradicts the shapes, Error(unsupported) for
/// rules that are not known.
std::map<std::string, JoinRule> rules_in(const PickleValue& info, Index rank, const Shapes& shapes);

}  // namespace shardweld::formats::deepspeed

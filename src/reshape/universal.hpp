// DeepSpeed's universal checkpoints, as its tool makes them of others.
// Source: DeepSpeed 0.19.8 deepspeed/checkpoint/{ds_to_universal,universal_checkpoint}.py,
// deepspeed/runtime/{engine,base_optimizer}.py, deepspeed/runtime/zero/stage3.py.
#pragma once

#include "placed.hpp"

namespace shardweld::reshape {

/// Whole tensors: weights in the file of the one model-parallel rank, each state in a file of its
/// own, in a directory of the parameter's name. Error(unsupported) by `save` where there are no
/// states.
Arrangement universal_arrangement(const models::Symbols& symbols);

}  // namespace shardweld::reshape

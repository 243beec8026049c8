// The `args` of a Megatron-LM run, as its checkpoints hold them.
// Knows the names of arguments; nothing of tensors. Source: Megatron-LM
// megatron/training/arguments.py.
#pragma once

#include "checkpoint.hpp"
#include "torch_writer.hpp"

namespace shardweld::bench {

/// "args", "checkpoint_version" and "iteration" of the top dictionary, keys and values.
void put_common_state(PickleWriter& out, const Checkpoint& checkpoint);

}  // namespace shardweld::bench

// What Megatron-Bridge says of an adapter in run_config.yaml, beside the shards.
// Knows that file's section `peft`; nothing of weights.
// Source: megatron-bridge 0.3.1 megatron/bridge/peft/{lora,canonical_lora}.py.
#pragma once

#include "shardweld/adapters/settings.hpp"

namespace shardweld::adapters {

/// `dim` and `alpha` as lora_train_meta.json has them; text "" where there is no section `peft`.
/// Error(unsupported) for other adapters than LoRA.
ConfigFile train_meta_of(const ConfigFile& run_config);

}  // namespace shardweld::adapters

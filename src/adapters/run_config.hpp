// What frameworks say of an adapter beside the shards: Megatron-Bridge's run_config.yaml and
// ms-swift's args.json. Sources: megatron-bridge 0.3.1
// megatron/bridge/peft/{lora,canonical_lora}.py, ms-swift 4 swift/arguments/tuner_args.py.
#pragma once

#include "settings.hpp"

namespace shardweld::adapters {

/// `dim` and `alpha` as lora_train_meta.json has them; text "" where there is no section `peft`.
/// Error(unsupported) for other adapters than LoRA.
ConfigFile train_meta_of(const ConfigFile& run_config);

/// Makes one of ms-swift's args.json (`lora_rank`, `lora_alpha`, `use_rslora`): text "" where it
/// says nothing of LoRA. Error(corrupt) for a file that is no JSON object.
ConfigFile train_meta_of_args(const ConfigFile& args);

}  // namespace shardweld::adapters

// What config.json says of rotary embeddings, against the forms that loaders compute.
// Sources: transformers 5.24 modeling_rope_utils (validate_rope, ROPE_INIT_FUNCTIONS), run; vLLM
// 0.33 layers/rotary_embedding and transformers_utils/config (patch_legacy_rope_type), SGLang
// 0.5.23 layers/rotary_embedding/factory, read.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "directory.hpp"

namespace shardweld::loaders {

struct RopeFault {
    std::string text;
    std::string hint;
};

/// Faults of each `rope_parameters` and `rope_scaling`, wherever in the configuration they stand.
std::vector<RopeFault> rope_faults(const nlohmann::json& config, Loader loader);

}  // namespace shardweld::loaders

// What a shard of the HuggingFace storage writer says about itself: DCP_SHARDING_INFO in its
// safetensors metadata.
// Knows the JSON only. Source: torch 2.15 torch/distributed/checkpoint/_hf_utils.py, filesystem.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/index.hpp"

namespace shardweld::formats::dcp {

inline constexpr const char* kShardingInfo = "DCP_SHARDING_INFO";

/// Tensor name -> where its part begins in the whole tensor (elements, one for each axis).
using ShardOffsets = std::map<std::string, std::vector<Index>>;

/// Parses {name: {"saved_offsets": [...]}}. Error(corrupt) naming the tensor when malformed.
ShardOffsets parse_sharding_info(const std::string& json);

}  // namespace shardweld::formats::dcp

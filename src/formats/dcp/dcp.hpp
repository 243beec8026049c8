// torch.distributed.checkpoint directories.
#pragma once

#include "formats/format.hpp"

namespace shardweld::formats::dcp {

/// "torch dcp": .distcp files described by `.metadata`, or by one `__{rank}.metadata` per rank.
const Format& dcp_format();

/// "torch dcp safetensors": the shards that the HuggingFace storage writer leaves, each of which
/// describes itself.
const Format& hf_shards_format();

}  // namespace shardweld::formats::dcp

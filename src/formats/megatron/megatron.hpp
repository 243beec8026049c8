// The Megatron formats, for the registry.
// Knows that they exist; what they are is in their files.
#pragma once

#include "formats/format.hpp"

namespace shardweld::formats::megatron {

const Format& legacy_format();
const Format& torch_dist_format();
const Format& zarr_format();

}  // namespace shardweld::formats::megatron

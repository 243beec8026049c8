// The FSDP formats of verl and accelerate, for the registry.
// Knows that they exist; what they are is in their files.
#pragma once

#include "formats/format.hpp"

namespace shardweld::formats::fsdp {

/// "verl fsdp".
const Format& fsdp_format();
/// "accelerate fsdp".
const Format& accelerate_format();

}  // namespace shardweld::formats::fsdp

// The verl FSDP format, for the registry.
// Knows that it exists; what it is is in its files.
#pragma once

#include "shardweld/formats/format.hpp"

namespace shardweld::formats::fsdp {

const Format& fsdp_format();

}  // namespace shardweld::formats::fsdp

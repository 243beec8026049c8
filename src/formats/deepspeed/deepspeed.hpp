// The formats of DeepSpeed: its checkpoints as saved, and universal ones that its tools make of
// them.
#pragma once

#include "formats/format.hpp"

namespace shardweld::formats::deepspeed {

const Format& zero_format();
const Format& universal_format();

}  // namespace shardweld::formats::deepspeed

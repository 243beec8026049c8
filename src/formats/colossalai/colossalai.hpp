// ColossalAI's model directories as an input.
#pragma once

#include "formats/format.hpp"

namespace shardweld::formats::colossalai {

/// "colossalai": sharded saves, with or without pipeline stages.
const Format& sharded_format();

/// "colossalai file": a save with shard=False, which looks like any model in one file.
const Format& single_format();

}  // namespace shardweld::formats::colossalai

// ByteCheckpoint's directories as an input.
#pragma once

#include "formats/format.hpp"

namespace shardweld::formats::bytecheckpoint {

/// "bytecheckpoint": model/.metadata and *.distcp whose items are bare elements.
const Format& bytecheckpoint_format();

}  // namespace shardweld::formats::bytecheckpoint

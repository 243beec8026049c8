// Options about storage: measuring it, striping, the roof.
// Knows names, spellings and ranges; nothing of what they do.
#pragma once

#include "option_reader.hpp"
#include "options.hpp"

namespace shardweld::app {

/// Error(usage) for values out of range.
void read_storage(const OptionReader& reader, Options& options);

}  // namespace shardweld::app

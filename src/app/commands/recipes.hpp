// `shardweld recipes`: the model families that are known.
// Knows recipes as texts; nothing of checkpoints.
#pragma once

#include <ostream>

#include "../cli/options.hpp"

namespace shardweld::app {

/// Local: prints the list, or the text of the recipe or dialect named. Returns the exit code;
/// Error(usage) for an unknown name.
int recipes(const Options& options, std::ostream& out);

}  // namespace shardweld::app

// What this program calls itself.
// Knows nothing else.
#pragma once

#include <string>

namespace shardweld::app {

std::string version();      ///< "0.1.0"
std::string git_version();  ///< of the sources, "unknown" when not built from a git checkout

}  // namespace shardweld::app

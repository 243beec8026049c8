// A completion script for bash, made from the option table so that it cannot go stale.
// Knows bash and the table; nothing of what options do.
#pragma once

#include <string>

namespace shardweld::app {

/// To be read by a shell: defines _shardweld and has it complete `shardweld`.
std::string bash_completion();

}  // namespace shardweld::app

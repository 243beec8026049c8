// Ranks started with different options would make different plans and wait for each other.
// Knows options as one text; nothing of what they say.
#pragma once

#include <string>

#include "shardweld/mpi/comm.hpp"

namespace shardweld::app {

/// Collective, before anything else that ranks do together. Error(usage) on all of them unless each
/// gives the same `text` (Options::shared; of a refused command line its error).
void require_same_options(mpi::Comm& comm, const std::string& text);

}  // namespace shardweld::app

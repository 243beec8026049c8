// Ranks started with different options, or of different programs, would make different plans and
// wait for each other. Knows which options must be equal; nothing of what they say.
#pragma once

#include <string>

#include "mpi/comm.hpp"

namespace shardweld::app {

/// Collective. Error(launch) unless all ranks run the same program; `mine` names this rank's
/// version.
void require_same_program(mpi::Comm& comm, const std::string& mine);

/// Collective, before anything else that ranks do together. Error(usage) on all of them unless each
/// gives the same `text` (Options::shared; of a refused command line its error).
void require_same_options(mpi::Comm& comm, const std::string& text);

}  // namespace shardweld::app

// Ranks started with different options, or of different programs, would make different plans and
// wait for each other. Knows which options must be equal; nothing of what they say.
#pragma once

#include <string>
#include <vector>

#include "shardweld/mpi/comm.hpp"

#include "arguments.hpp"

namespace shardweld::app {

/// What all ranks must be given alike, as one text (Options::shared): the command and its options,
/// but not which path one names, nor how much is told.
std::string shared_text(const CommandRow& command, const Arguments& arguments);

/// Options::output_options: "--dtype bf16", and of a path only that it is given.
std::vector<std::string> output_options(const Arguments& arguments);

/// Collective. Error(launch) unless all ranks run the same program; `mine` names this rank's
/// version.
void require_same_program(mpi::Comm& comm, const std::string& mine);

/// Collective, before anything else that ranks do together. Error(usage) on all of them unless each
/// gives the same `text` (Options::shared; of a refused command line its error).
void require_same_options(mpi::Comm& comm, const std::string& text);

}  // namespace shardweld::app

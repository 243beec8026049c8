// `shardweld iobench`: the roof of a merge, measured.
// Knows the command's output; what is measured is measure's matter.
#pragma once

#include "shardweld/mpi/comm.hpp"

#include "../cli/log.hpp"
#include "../cli/options.hpp"

namespace shardweld::app {

/// Collective: measures and prints. Returns the exit code. Error(target) when the directory cannot
/// be written, Error(space), Error(io).
int iobench(mpi::Comm& comm, const Options& options, Log& log);

}  // namespace shardweld::app

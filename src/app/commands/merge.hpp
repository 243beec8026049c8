// The merge, from finding the checkpoint to publishing the model.
// Knows the order of the steps; each step is another module's.
#pragma once

#include "shardweld/mpi/comm.hpp"

#include "../cli/log.hpp"
#include "../cli/options.hpp"

namespace shardweld::app {

/// Collective. Returns the exit code; throws the Error that ends the run, the same on all ranks.
int merge(mpi::Comm& comm, const Options& options, Log& log);

}  // namespace shardweld::app

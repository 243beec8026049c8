// The commands test and diff: what a merge would write, or a model directory, against another model
// directory. Knows the order of the steps; each step is another module's.
#pragma once

#include "shardweld/mpi/comm.hpp"

#include "../cli/log.hpp"
#include "../cli/options.hpp"

namespace shardweld::app {

/// Collective. Assembles what a merge would write, writes nothing, and compares it with
/// options.reference; rank 0 prints the result. Error(differs) when the models differ.
int test(mpi::Comm& comm, const Options& options, Log& log);

/// Collective. As test, with the model directory options.local_dir in the merge's place.
int diff(mpi::Comm& comm, const Options& options, Log& log);

}  // namespace shardweld::app

// The command verify: re-reads an output against the format's rules, its index and its report.
// Knows the order of the steps; each step is another module's.
#pragma once

#include "shardweld/mpi/comm.hpp"

#include "../cli/log.hpp"
#include "../cli/options.hpp"

namespace shardweld::app {

/// Collective. Checks options.local_dir; with options.report all tensors are read, by all ranks,
/// and their checksums compared. Rank 0 prints what was checked. Error(corrupt) or
/// Error(not_found) listing the rules broken; Error(differs) when tensors are not the report's.
int verify(mpi::Comm& comm, const Options& options, Log& log);

}  // namespace shardweld::app

// The command watch: a loop over merges. The first rank looks at the run, decides and keeps the
// books (steward.hpp); all ranks merge.
#pragma once

#include "app/messages/log.hpp"
#include "app/settings/options.hpp"
#include "mpi/comm.hpp"

namespace shardweld::app {

/// Collective. Merges each step of the run in options.local_dir into a directory of its name below
/// options.target_dir, once it is complete, until options.watch says that it ends.
/// Error(incomplete) where a step or a delta was not made or the command behind one failed;
/// Error(stopped) as a merge's; Error(locked) where another watch has the same target.
int watch(mpi::Comm& comm, const Options& options, Log& log);

}  // namespace shardweld::app

// `shardweld plan`: what a merge would do.
#pragma once

#include "app/settings/options.hpp"
#include "mpi/comm.hpp"

#include "plan_shown.hpp"

namespace shardweld::app {

/// Collective: the ranks that are here go a merge's way up to the plan, for --ranks ranks that all
/// see the checkpoint. The same on all, but for what each has measured of its memory.
PlannedMerge plan_merge(mpi::Comm& comm, const Options& options);

}  // namespace shardweld::app

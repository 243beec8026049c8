// Calls of the library on all ranks.
#pragma once

#include <functional>

#include "app/settings/options.hpp"
#include "mpi/comm.hpp"

namespace shardweld::app {

/// Collective. The options that `read` makes of a request. Error(usage) on all ranks where one has
/// none, or other ones than the first.
Options agreed_options(mpi::Comm& ranks, const std::function<Options()>& read);

/// Collective. Runs `run`. Failures of one rank alone are not known to the others, which wait for
/// it: where there are several, all end.
void run_or_abort(mpi::Comm& ranks, const std::function<void()>& run);

}  // namespace shardweld::app

// Requests of a program as jobs.
#pragma once

#include <functional>

#include "app/settings/job.hpp"
#include "mpi/comm.hpp"
#include "shardweld/merge.hpp"

namespace shardweld::app {

/// Collective. The job that a request makes for `command`. Error(usage) on all ranks for what is
/// missing, what is no value of an option, and options that a request does not take; and where a
/// rank has another request than the first.
Job job_of(mpi::Comm& ranks, const Request& request, Command command);

/// Collective. Runs `run`. Failures of one rank alone are not known to the others, which wait for
/// it: where there are several, all end.
void run_or_abort(mpi::Comm& ranks, const std::function<void()>& run);

}  // namespace shardweld::app

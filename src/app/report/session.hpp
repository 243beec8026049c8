// What every step of a run is given beside its values: the ranks, what was asked for, and where to
// tell what is found. Knows nothing of the steps.
#pragma once

#include <vector>

#include "shardweld/core/error.hpp"
#include "shardweld/mpi/comm.hpp"

#include "../cli/log.hpp"
#include "../cli/options.hpp"
#include "../runtime/stopwatch.hpp"
#include "report.hpp"

namespace shardweld::app {

struct Session {
    mpi::Comm& comm;
    const Options& options;
    Log& log;
    Report& report;
    Stopwatch& watch;
};

/// Puts a warning into the report, and into the log unless it is a problem (--strict).
void warn(Session& session, const plan::Warning& warning);
void warn(Session& session, const std::vector<plan::Warning>& warnings);

/// The warnings so far as errors of their own, alike on all ranks; none without --strict.
std::vector<Error> strict_problems(const Session& session);

}  // namespace shardweld::app

// A run of all ranks with a report at its end, whether it succeeds or fails.
// Knows reports and options; nothing of what is run.
#pragma once

#include <functional>
#include <string>

#include "shardweld/mpi/comm.hpp"

#include "session.hpp"

namespace shardweld::app {

/// What a reported run does; returns its exit code.
using ReportedRun = std::function<ErrorCode(Session&)>;

/// Collective. Runs, writes the report where --report asks for one, and returns the exit code; an
/// Error of `body` is reported and goes on.
int run_reported(mpi::Comm& comm, const Options& options, Log& log, const std::string& command,
                 const ReportedRun& body);

}  // namespace shardweld::app

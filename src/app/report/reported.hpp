// A run of all ranks with a report at its end, whether it succeeds or fails; and before anything is
// done, whether the report can be written.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "app/settings/options.hpp"
#include "mpi/comm.hpp"

#include "session.hpp"

namespace shardweld::app {

/// What a reported run does; returns its exit code.
using ReportedRun = std::function<ErrorCode(Outputs)>;

/// Is shown each output, with its report, at the end of a run that succeeded, the first one's
/// first.
using OnReport = std::function<void(const Session&)>;

/// Collective. Runs, writes the report where --report asks for one, and returns the exit code; an
/// Error of `body` is reported and goes on. The report of a run that failed stands beside that of
/// one that succeeded (publish::failed_beside).
int run_reported(mpi::Comm& comm, const Options& options, Log& log, const std::string& command,
                 const ReportedRun& body, const OnReport& on_report = {});

/// Local. `report` is an older report or nothing yet, its directory is there and may be written;
/// what lies in `target`, or in a directory that is made for it, will be there. Error(io);
/// Error(target) where it is the report of another model than `target`, which is there.
void require_report_place(const fs::path& report, const std::optional<fs::path>& target);

/// Collective. The first rank, which writes the reports, requires the place of `report`, if there
/// is one. Errors as require_report_place.
void check_report(mpi::Comm& comm, const std::optional<fs::path>& report,
                  const std::optional<fs::path>& target);

}  // namespace shardweld::app

// What every step of a run is given beside its values: the ranks, what was asked for, and where to
// tell what is found; and the report at its end, whether it succeeds or fails.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "app/messages/log.hpp"
#include "app/messages/progress.hpp"
#include "app/report/report.hpp"
#include "app/settings/job.hpp"
#include "io/throttle.hpp"
#include "mpi/comm.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

/// A run, as its steps are given it: its ranks, what is asked of them, and what they have found so
/// far. Copies share the latter.
struct Run {
    mpi::Comm& comm;
    const Job& job;
    Log& log;
    std::shared_ptr<io::Throttle> throttle;  ///< this rank's share of --bw_limit; null: none
    std::shared_ptr<RunReport> report;       ///< with that of each output
    std::shared_ptr<Stopwatch> watch;
    std::shared_ptr<Progress> progress;

    /// This run, by these ranks alone.
    [[nodiscard]] Run with(mpi::Comm& ranks) const {
        return {ranks, job, log, throttle, report, watch, progress};
    }
};

/// A run that begins, of one output at least. Messages go to `log`; `shown` has the progress.
Run begin_run(mpi::Comm& comm, const Job& job, const std::vector<JobOutput>& outputs, Log& log,
              Log& shown);
/// A run that makes all outputs which the job asks for, and logs where it reports.
inline Run begin_run(mpi::Comm& comm, const Job& job, Log& log) {
    return begin_run(comm, job, job.outputs, log, log);
}

/// The run's warnings, which are those of its first output, too; of another output its own.
Warnings& warnings_of(const Run& run, OutputReport& output);

/// Puts warnings into the report of the run, or of one of its outputs, and into the log unless they
/// are problems (--strict).
void warn(const Run& run, OutputReport& output, const Warnings& warnings);
void warn(const Run& run, const Warnings& warnings);
void warn(const Run& run, const Warning& warning);

/// The warnings so far as errors of their own, alike on all ranks; none without --strict.
std::vector<Error> strict_problems(const Run& run, OutputReport& output);

/// Collective. Puts the first rank's text out; Error(io) when nobody takes it.
void print(mpi::Comm& comm, std::ostream& out, const std::function<std::string()>& text);

/// Collective. Runs, writes the report where --report asks for one, and returns the exit code that
/// `body` returns; an Error of `body` is reported and goes on. The report of a run that failed
/// stands beside that of one that succeeded (publish::failed_beside). `on_report` is shown each
/// output, with its report, at the end of a run that succeeded, the first one's first.
int run_reported(mpi::Comm& comm, const Job& job, Log& log,
                 const std::function<ErrorCode(const Run&)>& body,
                 const std::function<void(const Run&, const OutputReport&)>& on_report = {});

/// Collective. On the first rank, which writes it: `report`, if there is one, is an older report or
/// nothing yet, its directory is there and may be written; what lies in `target`, or in a directory
/// that is made for it, will be there. Error(io); Error(target) where it is the report of another
/// model than `target`, which is there.
void check_report(mpi::Comm& comm, const std::optional<fs::path>& report,
                  const std::optional<fs::path>& target);

}  // namespace shardweld::app

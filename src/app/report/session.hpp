// What every step of a run is given beside its values: the ranks, what was asked for, and where to
// tell what is found; and the report at its end, whether it succeeds or fails.
#pragma once

#include <deque>
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

#include "report.hpp"

namespace shardweld::app {

/// One output of a run, with what all outputs share. References into a Run; copies share them.
struct Session {
    mpi::Comm& comm;
    const Job& job;
    Log& log;
    RunReport& run;
    Stopwatch& watch;
    Progress& progress;
    std::shared_ptr<io::Throttle> throttle;  ///< this rank's share of --bw_limit; null: none
    const JobOutput& output;
    OutputReport& report;
    std::vector<Warning>& warnings;  ///< the run's; of another output than the first its own

    /// This run, by these ranks alone.
    [[nodiscard]] Session with(mpi::Comm& ranks) const {
        return {ranks, job, log, run, watch, progress, throttle, output, report, warnings};
    }
};

/// A session for each output of a merge, the first one's first: what concerns all outputs is done
/// with that. They differ in their last three members.
using Outputs = std::vector<Session>;

/// A run, and what its sessions refer to.
class Run {
  public:
    /// Messages go to `log`; `shown` has the progress. At least one output.
    Run(mpi::Comm& comm, const Job& job, std::vector<JobOutput> outputs, Log& log, Log& shown);
    Run(mpi::Comm& comm, const Job& job, Log& log) : Run(comm, job, job.outputs, log, log) {}
    ~Run() = default;
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    Run(Run&&) = delete;
    Run& operator=(Run&&) = delete;

    [[nodiscard]] const Outputs& outputs() const { return outputs_; }
    [[nodiscard]] Session session() const { return outputs_.front(); }

  private:
    std::vector<JobOutput> requests_;
    RunReport report_;
    std::deque<OutputReport> reports_;
    Stopwatch watch_;
    Progress progress_;
    Outputs outputs_;
};

/// Puts a warning into the report, and into the log unless it is a problem (--strict).
void warn(const Session& session, const Warning& warning);
void warn(const Session& session, const std::vector<Warning>& warnings);

/// The warnings so far as errors of their own, alike on all ranks; none without --strict.
std::vector<Error> strict_problems(const Session& session);

/// Collective. Puts the first rank's text out; Error(io) when nobody takes it.
void print(mpi::Comm& comm, std::ostream& out, const std::function<std::string()>& text);

/// Collective. Runs, writes the report where --report asks for one, and returns the exit code that
/// `body` returns; an Error of `body` is reported and goes on. The report of a run that failed
/// stands beside that of one that succeeded (publish::failed_beside). `on_report` is shown each
/// output, with its report, at the end of a run that succeeded, the first one's first.
int run_reported(mpi::Comm& comm, const Job& job, Log& log,
                 const std::function<ErrorCode(Outputs)>& body,
                 const std::function<void(const Session&)>& on_report = {});

/// Collective. On the first rank, which writes it: `report`, if there is one, is an older report or
/// nothing yet, its directory is there and may be written; what lies in `target`, or in a directory
/// that is made for it, will be there. Error(io); Error(target) where it is the report of another
/// model than `target`, which is there.
void check_report(mpi::Comm& comm, const std::optional<fs::path>& report,
                  const std::optional<fs::path>& target);

}  // namespace shardweld::app

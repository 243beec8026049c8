// What every step of a run is given beside its values: the ranks, what was asked for, and where to
// tell what is found.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <ostream>
#include <vector>

#include "app/messages/log.hpp"
#include "app/messages/progress.hpp"
#include "app/runtime/stopwatch.hpp"
#include "app/settings/options.hpp"
#include "io/throttle.hpp"
#include "mpi/comm.hpp"
#include "shardweld/error.hpp"

#include "report.hpp"

namespace shardweld::app {

/// References into a Run; copies share them.
struct Session {
    mpi::Comm& comm;
    const Options& options;
    Log& log;
    Report& report;
    Stopwatch& watch;
    Progress& progress;
    std::shared_ptr<io::Throttle> throttle;  ///< this rank's share of --bw_limit; null: none

    /// This run, by these ranks alone.
    [[nodiscard]] Session with(mpi::Comm& ranks) const {
        return {ranks, options, log, report, watch, progress, throttle};
    }
};

/// A session for each output of a merge, the first one's first. They differ in what is asked for
/// and in their reports; what concerns all outputs is told to the first.
using Outputs = std::vector<Session>;

/// A run, and what its sessions refer to.
class Run {
  public:
    /// Messages go to `log`; `shown` has the progress.
    Run(mpi::Comm& comm, const Options& options, Log& log, Log& shown);
    Run(mpi::Comm& comm, const Options& options, Log& log) : Run(comm, options, log, log) {}
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    /// At least one.
    [[nodiscard]] const Outputs& outputs() const { return outputs_; }
    [[nodiscard]] Session session() const { return outputs_.front(); }

    /// Puts what all outputs have in common from the first report into the others.
    void share_report();

  private:
    struct Told {
        Options options;
        Report report;
    };
    std::deque<Told> told_;
    Stopwatch watch_;
    Progress progress_;
    Outputs outputs_;
};

/// Puts a warning into the report, and into the log unless it is a problem (--strict).
void warn(const Session& session, const plan::Warning& warning);
void warn(const Session& session, const std::vector<plan::Warning>& warnings);

/// The warnings so far as errors of their own, alike on all ranks; none without --strict.
std::vector<Error> strict_problems(const Session& session);

/// Collective. Puts the first rank's text out; Error(io) when nobody takes it.
void print(mpi::Comm& comm, std::ostream& out, const std::function<std::string()>& text);

}  // namespace shardweld::app

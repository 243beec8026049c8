// What every step of a run is given beside its values: the ranks, what was asked for, and where to
// tell what is found. Knows nothing of the steps.
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
#include "app/runtime/stopwatch.hpp"
#include "app/settings/options.hpp"
#include "io/throttle.hpp"
#include "mpi/comm.hpp"
#include "shardweld/error.hpp"

#include "report.hpp"

namespace shardweld::app {

struct Session {
    mpi::Comm& comm;
    const Options& options;
    Log& log;
    Report& report;
    Stopwatch& watch;
    Progress& progress;
    std::shared_ptr<io::Throttle> throttle;  ///< this rank's share of --bw_limit; null: none
    std::vector<Session*> also = {};         ///< --also: of the other outputs of a merge
};

/// Of output `at` of a merge: the first, or one of --also.
inline Session& output_session(Session& session, std::size_t at) {
    return at == 0 ? session : *session.also[at - 1];
}

/// The sessions of a merge's other outputs: each as if it was the only one, with a report of its
/// own. Lives as long as the first one's session.
class AlsoRuns {
  public:
    explicit AlsoRuns(Session& first);

    /// Puts what all outputs have in common into their reports.
    void complete();

  private:
    struct AlsoRun {
        Options options;
        Report report;
        std::optional<Session> session;
    };
    Session& first_;
    std::deque<AlsoRun> runs_;
};

/// A session whose report nobody writes; `shown` has the progress.
class Unreported {
  public:
    Unreported(mpi::Comm& comm, const Options& options, Log& log, Log& shown);
    Session& session() { return session_; }

  private:
    Report report_;
    Stopwatch watch_;
    Progress progress_;
    Session session_;
    AlsoRuns also_{session_};
};

/// Puts a warning into the report, and into the log unless it is a problem (--strict).
void warn(Session& session, const plan::Warning& warning);
void warn(Session& session, const std::vector<plan::Warning>& warnings);

/// The warnings so far as errors of their own, alike on all ranks; none without --strict.
std::vector<Error> strict_problems(const Session& session);

/// Collective. Puts the first rank's text out; Error(io) when nobody takes it.
void print(mpi::Comm& comm, std::ostream& out, const std::function<std::string()>& text);

}  // namespace shardweld::app

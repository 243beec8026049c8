// Reasons to end a merge early and in order: a signal to this process, or the end of its job.
#pragma once

#include <array>
#include <csignal>
#include <limits>
#include <optional>
#include <stop_token>
#include <string>

#include "app/messages/log.hpp"
#include "core/index.hpp"
#include "mpi/comm.hpp"

namespace shardweld::app {

/// While it lives, SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 are noted instead of ending the process; a
/// second SIGTERM or SIGINT ends it. One at a time.
class StopSignals {
  public:
    StopSignals();
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;
    StopSignals(StopSignals&&) = delete;
    StopSignals& operator=(StopSignals&&) = delete;

    /// The first one so far, "" if none; safe from any thread.
    [[nodiscard]] static std::string seen();

  private:
    static constexpr std::array kSignals = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};
    std::array<struct sigaction, kSignals.size()> before_{};
};

/// The job's number where Slurm runs this process, "" elsewhere.
std::string job_name();
/// How often Slurm has started that job again (SLURM_RESTART_COUNT); 0 elsewhere.
Index job_restarts();

/// When to stop: `before_s` seconds before `end`; not given: 60, less where less than ten minutes
/// are left.
double stop_time(double end, double now, std::optional<double> before_s);

/// "2026-11-22T03:10:00" in local time, as squeue prints it, in seconds since 1970; nullopt for
/// anything else ("NONE", "N/A").
std::optional<double> parse_local_time(const std::string& text);

/// Whether a merge should end early: agreed by all ranks between phases, and found by each on the
/// way.
class Stopping {
  public:
    /// Collective. When the job ends is asked once, by rank 0; every rank then looks at its own
    /// clock. `before_s`: --stop_before; `at`: --stop_at, rank 0's. The earlier of both counts.
    /// `stop`: asked for by the program that called the merge, on any rank.
    Stopping(mpi::Comm& comm, std::optional<double> before_s, std::optional<double> at,
             std::stop_token stop, Log& log);

    /// "interrupted by SIGINT", where StopSignals watches, "" while there is no reason. Local, from
    /// any thread.
    [[nodiscard]] std::string why() const;
    /// Why to stop in a phase that leaves nothing, with words that say so.
    [[nodiscard]] std::string why_before_writing() const;

    /// Collective. Error(stopped) on all ranks when one has a reason; for phases that leave
    /// nothing.
    void check(mpi::Comm& comm) const;

  private:
    std::stop_token stop_;
    double time_ = std::numeric_limits<double>::infinity();  ///< to stop at, seconds since 1970
    bool is_given_ = false;                                  ///< by --stop_at
};

}  // namespace shardweld::app

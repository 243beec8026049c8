// What ends a run before its end: signals, the job's time, whoever asks for it; and a watchdog,
// where ranks make no progress any more.
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <pthread.h>
#include <stop_token>
#include <string>

#include "app/messages/log.hpp"
#include "core/index.hpp"
#include "mpi/comm.hpp"

#include "roll_call.hpp"

namespace shardweld::app {

/// While it lives, SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 are noted instead of ending the process; a
/// second SIGTERM or SIGINT ends it. One at a time.
class StopSignals {
  public:
    StopSignals();
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;

    /// Whoever presses Ctrl-C is told on this file that it was heard; on standard error, where that
    /// is a terminal, from the beginning.
    static void tell_on(int file);
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

/// Watches from a thread of its own, with a stack of a few pages. When nothing was finished
/// together for `limit_s` it asks the other ranks' watchdogs, says who does not answer, and ends
/// the process with code 10, whatever the other threads are stuck in; the launcher ends the other
/// ranks.
class Watchdog {
  public:
    /// `limit_s` 0: watches nothing. `tell` is told what a rank stands still in, beside standard
    /// error, by any thread. `others`: who can be asked whether they live; null: nobody.
    /// Error(memory) when there can be no thread.
    Watchdog(mpi::Pulse& pulse, int rank, const std::string& host, double limit_s,
             std::function<void(const std::string&)> tell,
             std::shared_ptr<RollCall> others = nullptr);
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    /// What is being done, a literal, for the message.
    void enter(const char* phase) { phase_ = phase; }
    /// What to do where nothing gets on, a literal.
    void advise(const char* remedy) { remedy_ = remedy; }
    /// From now on this pulse is the rank's.
    void follow(mpi::Pulse& pulse) { pulse_ = &pulse; }

  private:
    static void* watch(void* self);
    void watch();
    /// What this rank says of itself to others.
    [[nodiscard]] RankState state() const;
    /// Until `seconds` are over, it is woken, or another rank asks: whether one did.
    [[nodiscard]] bool nap(double seconds) const;
    [[noreturn]] void bark(double silence) const;

    std::atomic<mpi::Pulse*> pulse_;
    int rank_;
    double limit_s_;
    std::function<void(const std::string&)> tell_;
    std::shared_ptr<RollCall> others_;
    std::string who_;  ///< "rank 2 (host)"
    std::atomic<const char*> phase_ = "starting";
    std::atomic<const char*> remedy_ =
        "another rank is dead or a file system hangs; the same command continues from what is done";
    pthread_t thread_{};
    int wake_ = -1;  ///< readable at the end
    std::atomic<bool> over_ = false;
};

inline constexpr unsigned kExitLimit_s = 20;

/// The MPI library hangs when it is finalised, seen rarely with PMIx under Slurm. While it lives
/// and once it has begun, the process ends after `kExitLimit_s`, with its code: everything is done
/// by then. One at a time; not together with other users of alarm(2).
class ExitLimit {
  public:
    ExitLimit() = default;
    ~ExitLimit();
    ExitLimit(const ExitLimit&) = delete;
    ExitLimit& operator=(const ExitLimit&) = delete;

    /// All ranks have agreed on the end; output is flushed.
    void begin(int code);
};

}  // namespace shardweld::app

// Ends a process that would hang: its ranks have stopped answering one another, or its MPI library
// does not end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <pthread.h>
#include <string>

#include "mpi/comm.hpp"

namespace shardweld::app {

/// Which rank is watched, and where to tell what it stands still in, beside standard error.
struct Watched {
    int rank = 0;
    std::string host;
    std::function<void(const std::string&)> tell;  ///< of any thread; may be empty
};

/// Watches from a thread of its own, with a stack of a few pages. When nothing was finished
/// together for `limit_s` it says so and ends the process with code 10, whatever the other threads
/// are stuck in; the launcher ends the other ranks.
class Watchdog {
  public:
    /// `limit_s` 0: watches nothing. Error(memory) when there can be no thread.
    Watchdog(mpi::Pulse& pulse, Watched who, double limit_s);
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;
    Watchdog(Watchdog&&) = delete;
    Watchdog& operator=(Watchdog&&) = delete;

    /// What is being done, a literal, for the message.
    void enter(const char* phase) { phase_ = phase; }
    /// What to do where nothing gets on, a literal.
    void advise(const char* remedy) { remedy_ = remedy; }
    /// From now on this pulse is the rank's.
    void follow(mpi::Pulse& pulse) { pulse_ = &pulse; }

  private:
    static void* watch(void* self);
    void watch();
    [[noreturn]] void bark() const;

    std::atomic<mpi::Pulse*> pulse_;
    double limit_s_;
    Watched watched_;
    std::string who_;  ///< "rank 2 (host)"
    std::atomic<const char*> phase_ = "starting";
    std::atomic<const char*> remedy_ =
        "another rank is dead or a file system hangs; the same command continues from what is done";
    pthread_t thread_{};
    std::mutex mutex_;
    std::condition_variable is_over_;
    bool over_ = false;
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
    ExitLimit(ExitLimit&&) = delete;
    ExitLimit& operator=(ExitLimit&&) = delete;

    /// All ranks have agreed on the end; output is flushed.
    void begin(int code);
};

}  // namespace shardweld::app

// When a rank last heard from the others, and what it waits for: written by the thread that
// communicates, read by one that watches.
#pragma once

#include <atomic>

#include "core/process/system.hpp"

namespace shardweld::mpi {

/// The sign of life of one rank's main thread, for the watchdog. Any thread reads it.
class Pulse {
  public:
    /// Something was finished together with the others, or alone where there are none.
    void beat() { last_ = wall_seconds(); }

    /// Seconds since the last beat.
    [[nodiscard]] double silence() const { return wall_seconds() - last_; }
    /// What the rank is in, e.g. "a broadcast"; nullptr while it does something of its own.
    [[nodiscard]] const char* waits_for() const { return waits_for_; }

    /// A call that ends when the others arrive; `what` is a literal.
    class Wait {
      public:
        Wait(Pulse& pulse, const char* what) : pulse_(pulse) { pulse_.waits_for_ = what; }
        ~Wait() {
            pulse_.waits_for_ = nullptr;
            pulse_.beat();
        }
        Wait(const Wait&) = delete;
        Wait& operator=(const Wait&) = delete;

      private:
        Pulse& pulse_;
    };

  private:
    std::atomic<double> last_ = wall_seconds();
    std::atomic<const char*> waits_for_ = nullptr;
};

}  // namespace shardweld::mpi

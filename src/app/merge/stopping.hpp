// Whether a merge should end early, agreed by all ranks between phases and found by each on the
// way. Knows the reasons there are; nothing of what is stopped.
#pragma once

#include <limits>
#include <optional>
#include <stop_token>
#include <string>

#include "app/messages/log.hpp"
#include "app/runtime/stop.hpp"
#include "mpi/comm.hpp"

namespace shardweld::app {

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
    /// The same for phases that leave nothing, and say so.
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

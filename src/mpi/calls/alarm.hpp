// A flag that any rank raises and all others soon see, and the end of a phase in which ranks run
// freely: by votes that ranks cast when they pass by. Knows nothing of why it is raised.
#pragma once

#include <array>
#include <functional>

#include <mpi.h>

#include "mpi/pulse.hpp"

namespace shardweld::mpi {

/// Votes are non-blocking reductions, one after another; one ends when every rank has passed by, so
/// each end also shows that no rank hangs.
class Alarm {
  public:
    /// Duplicates `parent`: votes never meet its traffic. Collective.
    Alarm(MPI_Comm parent, Pulse& starting, Pulse& pulse);
    ~Alarm();
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;
    Alarm(Alarm&&) = delete;
    Alarm& operator=(Alarm&&) = delete;

    /// Local, never blocks.
    void raise() { raised_ = true; }
    /// Local, never blocks: casts this rank's vote and takes what others said.
    bool seen();
    /// All ranks arrive; clears the flag. While others are under way, `wants_alarm` is asked
    /// whether to raise it. Collective.
    void drain(const std::function<bool()>& wants_alarm);

  private:
    /// Whether a vote has ended; begins the next one where none is under way.
    bool vote(bool is_finished);

    Pulse& pulse_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    MPI_Request vote_ = MPI_REQUEST_NULL;
    std::array<int, 2> mine_{};  ///< raised, still running
    std::array<int, 2> all_{};
    bool raised_ = false;  ///< by this rank
    bool heard_ = false;   ///< from another
};

}  // namespace shardweld::mpi

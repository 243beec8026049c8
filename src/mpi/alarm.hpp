// A flag that any rank raises and all others soon see, by small messages on a communicator of its
// own. Knows nothing of why it is raised.
#pragma once

#include <vector>

#include <mpi.h>

namespace shardweld::mpi {

class Alarm {
  public:
    /// Duplicates `parent`: alarm messages never meet its traffic. Collective.
    explicit Alarm(MPI_Comm parent);
    ~Alarm();
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;
    Alarm(Alarm&&) = delete;
    Alarm& operator=(Alarm&&) = delete;

    /// Local, never blocks; the second call of a phase does nothing.
    void raise();
    /// Local, never blocks: takes what has arrived.
    bool seen();
    /// All ranks arrive; takes what is still on its way and clears the flag. Collective.
    void drain();

  private:
    void receive_from(int rank);

    MPI_Comm comm_ = MPI_COMM_NULL;
    bool raised_ = false;         ///< by this rank
    std::vector<char> received_;  ///< by rank: its message has been taken
    bool any_received_ = false;
    std::vector<MPI_Request> sends_;
};

}  // namespace shardweld::mpi

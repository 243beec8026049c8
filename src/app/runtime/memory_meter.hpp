// What the metadata of a run takes, measured from outside: before, at most, and when it is planned.
// Knows the system's counters and the group of ranks; nothing of what is held.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "shardweld/core/usage.hpp"
#include "shardweld/mpi/share.hpp"

namespace shardweld::app {

/// What one rank's process held, measured: anonymous and shared memory in bytes.
struct RankMemory {
    Bytes base = 0;      ///< before anything was read: the program and MPI
    Bytes metadata = 0;  ///< beside it, at most, until the plan was made
    Bytes plan = 0;      ///< beside it, when the plan was made
};

/// Made before anything is read.
class MemoryMeter {
  public:
    MemoryMeter() { memory_.base = resident_bytes(); }

    /// Nothing but the plan is needed from now on: what was freed goes back to the system.
    void planned() {
        memory_.metadata = above_base(peak_bytes());
        return_freed_memory();
        memory_.plan = above_base(resident_bytes());
    }
    [[nodiscard]] const RankMemory& memory() const { return memory_; }

    /// Collective: all ranks', on every rank.
    [[nodiscard]] std::vector<RankMemory> gather(mpi::Comm& comm) const {
        return mpi::gather(comm, memory_);
    }

  private:
    [[nodiscard]] Bytes above_base(Bytes bytes) const {
        return bytes - std::min(bytes, memory_.base);
    }

    RankMemory memory_;
};

}  // namespace shardweld::app

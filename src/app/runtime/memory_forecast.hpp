// The memory that a rank of a planned merge will take.
// Knows plans, and what a process that made one has measured.
#pragma once

#include "memory_meter.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::app {

/// Bytes of anonymous and shared memory of the largest rank.
struct MemoryForecast {
    Bytes base = 0;      ///< the program, and MPI where there are several ranks
    Bytes metadata = 0;  ///< at most, until the plan is made
    Bytes plan = 0;      ///< when it is made
    Bytes making = 0;    ///< files, by a library, beside the plan
    Bytes buffers = 0;   ///< in use at most while tensors move, what that library keeps included

    [[nodiscard]] Bytes peak() const;
};

/// Of a merge by the plan's ranks, all on one node. `measured`: what planning took in this process,
/// which does the same until the first tensor moves; `has_mpi`: MPI is among it.
MemoryForecast forecast_memory(const plan::Plan& plan, const RankMemory& measured, bool has_mpi);

}  // namespace shardweld::app

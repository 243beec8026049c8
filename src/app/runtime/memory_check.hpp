// Whether every rank gets the memory that moving its tensors takes.
// Knows plans and the system's limits; reserves nothing.
#pragma once

#include "shardweld/mpi/comm.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::app {

/// Collective. Error(memory) when a rank cannot have the plan's buffers and what MPI takes for
/// messages. Asked before anything is written: MPI ends a job in which it finds no memory itself,
/// and nobody clears up.
void require_memory(mpi::Comm& comm, const plan::Plan& plan);

}  // namespace shardweld::app

// A short measurement of what a merge is made of: reads, copies, messages, with all ranks at once.
// Knows files, ranks and clocks; nothing of targets.
#pragma once

#include "shardweld/execute/run.hpp"
#include "shardweld/mpi/comm.hpp"
#include "shardweld/plan/cost.hpp"
#include "shardweld/plan/plan.hpp"

namespace shardweld::execute {

/// Collective; takes about 50 ms. Every rank reads here and there in the largest files that it
/// sees, copies memory and exchanges messages with a rank half of all ranks away; of each rank's
/// medians the ranks agree on the median, the same value everywhere. A rate that nobody can measure
/// (no file, one rank) is 0, and so is that of writing. Error(io), Error(not_found), Error(corrupt)
/// when a file cannot be read, agreed by all ranks.
plan::Rates measure_rates(mpi::Comm& comm, const Source& source,
                          const plan::Visibility& visibility);

}  // namespace shardweld::execute

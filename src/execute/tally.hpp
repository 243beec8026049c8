// Counts the output's bytes when all are said to be there.
#pragma once

#include <vector>

#include "mpi/comm.hpp"
#include "plan/output_range.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::execute {

/// What became of the output space in one run, of one rank or of all.
struct Tally {
    Bytes written = 0;                     ///< bytes given to the system
    Bytes reused = 0;                      ///< bytes of an earlier run, found as they should be
    std::vector<plan::OutputRange> parts;  ///< of the output space that were written, in any order
};

/// Collective: all ranks' together, on every rank.
Tally gathered(mpi::Comm& comm, const Tally& mine);

/// Error(internal), naming the first tensor concerned, unless `all.parts` and what `reused` holds
/// (a united list) are the plan's output space, each byte once, and the counted bytes are as many.
void require_each_byte_once(const plan::Plan& plan, const Tally& all,
                            const std::vector<plan::OutputRange>& reused);

}  // namespace shardweld::execute

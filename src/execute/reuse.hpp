// Blocks that an earlier run has written: read back and compared with what its journal says.
// Knows blocks and output files; nothing of who wrote them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "run_options.hpp"

namespace shardweld::execute {

/// Gets a block that is as the journal says, and its bytes.
using OnReused = std::function<void(const DoneBlock& block, const plan::Slice& slice,
                                    std::span<const std::byte> bytes)>;

/// Gets one that is not read again.
using OnKept = std::function<void(const DoneBlock& block, const plan::Slice& slice,
                                  const numeric::Census& census)>;

/// Collective. Reads the blocks of `options.resumption` back, each by one rank, not necessarily its
/// owner, and calls `on_reused` there; `on_kept` for those that need not be read. Returns the lines
/// of those that are right, the same on all ranks, and counts this rank's. Error(io),
/// Error(stopped).
std::vector<plan::LineRange> reuse(mpi::Comm& comm, const plan::Plan& plan,
                                   const io::Directory& directory, const RunOptions& options,
                                   const OnReused& on_reused, const OnKept& on_kept,
                                   RankCounts& counts);

}  // namespace shardweld::execute

// What ranks send to each other in one exchange.
#pragma once

#include <cstddef>
#include <span>

#include "core/index.hpp"

namespace shardweld::mpi {

/// What one rank sends to and receives from each rank, by rank.
struct Messages {
    std::span<const ByteView> to_send;
    std::span<const ByteSpan> to_receive;
};

/// The part of an exchange that concerns this rank alone: copies its message to itself.
/// Requires spans of equal size.
void copy_own(const Messages& messages, int rank);

/// Why the messages are not valid arguments for `n_ranks` ranks, or nullptr.
const char* fault_of(const Messages& messages, Bytes limit, int rank, int n_ranks);

}  // namespace shardweld::mpi

// The memory that a plan takes on every rank, beside the buffers.
#pragma once

#include "core/index.hpp"

namespace shardweld::plan {

struct Plan;

/// Bytes of targets, operands, names, headers and views that the plan holds: what --memory_limit
/// leaves out while tensors move. Reading and planning take some times as much before.
Bytes metadata_bytes(const Plan& plan);

/// Bytes of the buffers that a rank may use: Limits::total(), less where its part is small.
Bytes most_buffers(const Plan& plan);

/// Bytes of the buffers that the busiest rank will use: most_buffers() at most, less where rounds
/// never fill what they may. Walks through the rounds of small groups of ranks.
Bytes used_buffers(const Plan& plan);

/// The buffers of an output that is made in another one's rounds, at most.
Bytes writing_buffers(const Plan& plan);

}  // namespace shardweld::plan

// Files whose metadata is large: what bench_pickle reads.
// Knows how many tensors, ranks and chunks there are; how they are written is the other writers'.
#pragma once

#include <filesystem>

#include "core/index.hpp"

namespace shardweld::bench {

// Each writes a directory that shardweld recognises as a checkpoint; tensors are holes.

/// verl's FSDP2: two rank files, `n_layers` times nine DTensors over one mesh in each.
void write_dtensor_case(const std::filesystem::path& directory, Index n_layers);

/// verl's FSDP1 without a mesh: one file of `n_tensors` ShardedTensors; each tells all `n_ranks`
/// ranks' shards.
void write_sharded_case(const std::filesystem::path& directory, Index n_tensors, Index n_ranks);

/// Megatron's legacy files of four ranks, `n_layers` layers in each of two stages.
void write_legacy_case(const std::filesystem::path& directory, Index n_layers);

/// torch DCP: a `.metadata` of `n_tensors` tensors in `n_ranks` chunks each, and no data.
void write_dcp_case(const std::filesystem::path& directory, Index n_tensors, Index n_ranks);

}  // namespace shardweld::bench

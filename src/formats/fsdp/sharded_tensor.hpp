// ShardedTensors of one rank's file: FSDP1's sharded state dict without a device mesh.
// Knows ShardedTensor and its metadata; nothing of other ranks' files.
// Source: torch 2.15 torch/distributed/_shard/sharded_tensor/api.py (__getstate__), metadata.py,
// torch/distributed/_shard/metadata.py.
#pragma once

#include "catalogue/tensor.hpp"
#include "formats/containers/torch_file.hpp"

#include "rank_files.hpp"
#include "subclass.hpp"

namespace shardweld::formats::fsdp {

/// A ShardedTensor with its pieces in this file; without a name. Every rank repeats the places of
/// all shards: those of this rank are compared with what it holds, so that ranks which disagree
/// leave a gap or an overlap. `entries_left` is lowered by what is visited. Error(mismatch) when
/// shards and their places contradict each other or another rank saved them; Error(corrupt) when
/// malformed.
catalogue::Tensor read_sharded_tensor(const TorchFile& file, const Subclass& value,
                                      const RankFile& rank, std::size_t& entries_left);

/// Whether the tensor's group tells the rank: it is that of the file's name then.
bool knows_rank_of_group(const Subclass& value);

}  // namespace shardweld::formats::fsdp

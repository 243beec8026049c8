// Megatron's torch_dist checkpoints: whole tensors in chunks, which any number of ranks can load.
// Sources: megatron-core 0.12 to 0.19 dist_checkpointing.
#pragma once

#include "destination.hpp"
#include "placed.hpp"

namespace shardweld::reshape {

/// A chunk for each layer of a stacked tensor and for each of its experts' matrices. Files hold
/// about 4 GB of bf16 each, so that many ranks write at once; which chunk is in which one depends
/// on sizes alone. The common state is a file or, from megatron-core 0.19 on, an object: that
/// version reads both, all earlier ones read the file.
Arrangement torch_dist_arrangement(const Destination& destination, const models::Symbols& symbols);

}  // namespace shardweld::reshape

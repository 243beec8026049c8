// One rank's file of a verl FSDP checkpoint: its entries as parts of global tensors.
// Knows what an entry can be; nothing of other ranks' files.
// Source: verl 0.9.1 verl/utils/checkpoint/fsdp_checkpoint_manager.py (save_checkpoint).
#pragma once

#include <string>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"

namespace shardweld::formats::fsdp {

/// DTensors and ShardedTensors as `tensors` of their global shape with the pieces of this file
/// (none where the rank holds nothing); plain tensors as `shards` of their local shape with the
/// rank's coordinates; `notes`: the meshes. Errors as of DTensorReader and
/// read_sharded_tensor; Error(unsupported) for flat parameters and other tensor classes,
/// Error(mismatch) when two names become one without their wrappers.
catalogue::Catalogue scan_rank(const Location& location, const std::string& file);

}  // namespace shardweld::formats::fsdp

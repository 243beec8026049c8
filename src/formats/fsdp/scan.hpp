// One rank's file of an FSDP checkpoint, its entries as parts of global tensors, and what the
// rank's training state says of the save: steps of its scheduler and optimizer. No moments are
// read. Source: verl 0.9.1 verl/utils/checkpoint/fsdp_checkpoint_manager.py (save_checkpoint).
#pragma once

#include <string>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"

#include "rank_files.hpp"

namespace shardweld::formats::fsdp {

/// DTensors and ShardedTensors as `tensors` of their global shape with the pieces of this file
/// (none where the rank holds nothing); plain tensors as `shards` of their local shape with the
/// rank's coordinates; `notes`: the meshes. Errors as of DTensorReader and
/// read_sharded_tensor; Error(unsupported) for flat parameters and other tensor classes,
/// Error(mismatch) when two names become one without their wrappers.
catalogue::Catalogue scan_rank(const Location& location, const std::string& file);

inline constexpr const char* kUnreadState = "state_unread";

/// Adds the statements of the rank's two files, as far as they lie beside its model file. One that
/// cannot be read is no part of the model: a warning of the scan, kUnreadState. Local.
void add_training_state(const Location& location, const RankFile& rank, catalogue::Catalogue& out);

}  // namespace shardweld::formats::fsdp

// What a rank's training state says of the save: steps of its scheduler and optimizer.
// Knows verl's extra_state and optim files; reads no moments.
// Source: verl 0.9.1 verl/utils/checkpoint/fsdp_checkpoint_manager.py.
#pragma once

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"

#include "rank_files.hpp"

namespace shardweld::formats::fsdp {

inline constexpr const char* kUnreadState = "state_unread";

/// Adds the statements of the rank's two files, as far as they lie beside its model file. One that
/// cannot be read is no part of the model: a warning of the scan, kUnreadState. Local.
void add_training_state(const Location& location, const RankFile& rank, catalogue::Catalogue& out);

}  // namespace shardweld::formats::fsdp

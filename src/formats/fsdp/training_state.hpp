// What a rank's training state says of the save: steps of its scheduler and optimizer.
// Knows verl's extra_state and optim files; reads no moments.
// Source: verl 0.9.1 verl/utils/checkpoint/fsdp_checkpoint_manager.py.
#pragma once

#include <vector>

#include "shardweld/catalogue/statement.hpp"
#include "shardweld/formats/format.hpp"

#include "rank_files.hpp"

namespace shardweld::formats::fsdp {

/// The statements of the rank's two files, as far as they lie beside its model file and can be
/// read: they are no part of the model, so none of them has to be sound. Local.
std::vector<catalogue::Statement> statements_of_state(const Location& location,
                                                      const RankFile& rank);

}  // namespace shardweld::formats::fsdp

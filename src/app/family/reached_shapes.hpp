// Checkpoints whose files do not say how large a whole tensor is: whether the last ranks' are
// there. Knows config.json's vocabulary and how ranks cut a tensor; nothing of files' contents.
#pragma once

#include "models/config.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// For tensors that no recipe gives a shape: Error(unsupported), naming one and the last file it is
/// in, when shapes are only reached (formats::kShardRanks) and nothing proves that no rank's file
/// is missing. A tensor proves it that is cut among all ranks found, could not be among more, and
/// is known to be whole: its last part is shorter than the others, or it has the vocabulary's rows.
void require_all_ranks(const models::Config& config, const catalogue::Catalogue& catalogue);

}  // namespace shardweld::app

// The optimizer's file of one rank, beside its model file: optim_world_size_W_rank_R.pt, torch's
// optimizer.state_dict(), which numbers parameters and does not name them.
// Sources: verl 0.9.1 verl/utils/checkpoint/fsdp_checkpoint_manager.py (save_checkpoint);
// torch 2.15 torch/optim/optimizer.py (state_dict).
#pragma once

#include "formats/catalogue_words.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"

#include "rank_files.hpp"

namespace shardweld::formats::fsdp {

/// The states that are asked for, under the names of the model's parameters, and what the file says
/// of the optimizer. `model`: the rank's model file, whose keys are in the order in which the
/// optimizer numbers them, group by group; other names of a parameter are left out. Without a file
/// nothing, where masters alone are asked for. Error(not_found) naming the file that is not there;
/// Error(unsupported) for FSDP1's flat shards, for states of other optimizers than Adam, and where
/// shapes do not tell which parameter is in which group; Error(mismatch) where they are not the
/// model's. Error as by the claims (optimizer_claims.hpp). Local.
Catalogue scan_optimizer(const Location& location, const RankFile& rank, const TorchFile& model);

}  // namespace shardweld::formats::fsdp

// Preparing a model: what of its recipe, its dialect and its config.json holds for a checkpoint.
#pragma once

#include "model.hpp"

namespace shardweld::app {

/// Renames the catalogue's tensors as the family's are, where their prefix differs and it is
/// certain how (family_names.hpp). Error(unsupported) for a family or dialect without a recipe;
/// Error(mismatch) listing every field in which config.json contradicts the checkpoint, or where
/// the prefix is another.
HeldModel prepare_model(const ModelFiles& files, const JobModel& choice,
                        catalogue::Catalogue& catalogue);

}  // namespace shardweld::app

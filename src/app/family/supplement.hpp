// What a checkpoint does not hold of its model, taken from another: MTP layers, towers, heads.
#pragma once

#include <string>

#include "app/survey/checkpoint.hpp"
#include "catalogue/catalogue.hpp"
#include "plan/binding.hpp"

#include "model.hpp"
#include "model_files.hpp"

namespace shardweld::app {

/// As plan::bind of the checkpoint with `bind_options`; beside its targets stand those of the
/// reference (JobModel::supplement) whose names the model has and the checkpoint does not, bound
/// by the same config.json (Binding::supplied). Nothing is taken for a module of which the
/// checkpoint holds a part. Pure. Error(mismatch) for such a part, with a name of either side; for
/// shapes of the reference that are not the model's; for types that are others than the
/// checkpoint's in what both have; for what both lack. Error(unsupported) for a reference of codes.
/// Else as plan::bind.
plan::Binding bind_supplemented(const PreparedModel& prepared, const ModelFiles& files,
                                const plan::BindOptions& bind_options,
                                catalogue::Catalogue checkpoint);

/// "3 tensors of DIR, which the checkpoint does not have: ..."; "nothing: ...".
std::string supplement_text(const Checkpoint& reference, const plan::Binding& binding);

}  // namespace shardweld::app

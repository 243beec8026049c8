// A model whose head and embedding are one, and an adapter that changes either: folded, they are
// two. Facts: PEFT (0.21) wraps each module on its own; the other one goes on with the base's
// matrix, and what merge_and_unload adds to the one matrix, both get.
#pragma once

#include "app/family/model.hpp"
#include "app/family/model_files.hpp"
#include "models/config.hpp"

namespace shardweld::app {

/// Writes into a config that head and embedding are two, wherever the family's loaders look.
void untie(models::Config& config, const HeldModel& tied);

/// prepare_with_adapter. Where a folded adapter changes head or embedding of a model that ties
/// them, the result's files say that they are two, and `catalogue` holds what stood for both under
/// either name; a warning says so. Error(unsupported) for a family that always ties them, and where
/// no recipe tells what its head is called.
HeldModel prepare_for_fold(ModelFiles files, JobModel choice, catalogue::Catalogue& catalogue);

}  // namespace shardweld::app

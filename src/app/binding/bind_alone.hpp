// Binding a model's tensors that no adapter stands beside.
#pragma once

#include "app/family/model.hpp"

namespace shardweld::app {

/// Binds such a model. Error(unsupported) for weights that are stored as codes where a training
/// checkpoint is written; else as plan::bind.
void bind_alone(HeldModel& model, const Job& job, catalogue::Catalogue catalogue);

}  // namespace shardweld::app

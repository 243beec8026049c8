// What becomes of a checkpoint's tensors: the model's, and an adapter's, which is written beside it
// or folded into it, as --lora says.
#pragma once

#include "app/family/model.hpp"

namespace shardweld::app {

/// Binds base and adapter of a model that is prepared. Pure; `catalogue` moves into it.
/// Error(usage) where the options leave nothing to write or no base to fold into; else as
/// plan::bind, adapters::separate, settle and attach.
void bind_model(HeldModel& model, const Job& job, catalogue::Catalogue catalogue);

}  // namespace shardweld::app

// What becomes of a checkpoint's tensors: the model's, and an adapter's, which is written beside it
// or folded into it, as --lora says.
#pragma once

#include "bound.hpp"
#include "model.hpp"

namespace shardweld::app {

/// Binds base and adapter. Pure; `catalogue` moves into the result. Error(usage) where the options
/// leave nothing to write or no base to fold into; else as plan::bind, adapters::separate, settle
/// and attach.
Bound bind_model(const PreparedModel& prepared, const ModelFiles& files, const Job& job,
                 catalogue::Catalogue catalogue);

}  // namespace shardweld::app

// Binding a LoRA adapter and the model that it stands beside.
#pragma once

#include "app/family/model.hpp"

namespace shardweld::app {

/// Binds base and adapter of one checkpoint, one after the other. Errors as by bind_model.
void bind_with_adapter(HeldModel& model, const Job& job, catalogue::Catalogue catalogue);

}  // namespace shardweld::app

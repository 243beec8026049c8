// Binding a LoRA adapter and the model that it stands beside.
#pragma once

#include "bound.hpp"
#include "model.hpp"

namespace shardweld::app {

/// Binds base and adapter of one checkpoint, one after the other. Errors as by bind_model.
Bound bind_with_adapter(const PreparedModel& prepared, const ModelFiles& files, const Job& job,
                        catalogue::Catalogue catalogue);

}  // namespace shardweld::app

// The one place that knows all forms of training checkpoints that are written.
#pragma once

#include "destination.hpp"
#include "placed.hpp"

namespace shardweld::reshape {

/// How the destination holds this model's tensors. `symbols` are those of facts_of(destination).
/// Error(mismatch) where the model cannot be spread over its ranks; Error(internal) for hf, which
/// is no training checkpoint.
Arrangement arrangement_of(const Destination& destination, const models::Symbols& symbols);

}  // namespace shardweld::reshape

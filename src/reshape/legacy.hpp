// Legacy Megatron checkpoints: each rank's tensors in a file of its own.
#pragma once

#include "destination.hpp"
#include "placed.hpp"

namespace shardweld::reshape {

/// Lines are those of Megatron's dialect that ranks hold. Error(mismatch), in config.json's words,
/// where the model's heads, experts or layers cannot be spread over so many ranks; the pieces'
/// Error(unsupported) for tensors of which it is not known which pipeline stage has them.
Arrangement legacy_arrangement(const Destination& destination, const models::Symbols& symbols);

}  // namespace shardweld::reshape

// Weights that a model stores as codes of fewer bits. Knows the options; what codes are is plan's.
#pragma once

#include <vector>

#include "shardweld/plan/dequantise.hpp"

#include "model.hpp"

namespace shardweld::app {

/// Weights that are stored as codes, taken out of the catalogue where --dtype asks for their
/// values: a cast of codes would be wrong. Pure. Error(unsupported) for other types than bf16, and
/// for what plan::take_encoded refuses.
std::vector<plan::EncodedWeight> encoded_weights(const models::Config& config,
                                                 const Options& options,
                                                 catalogue::Catalogue& catalogue);

}  // namespace shardweld::app

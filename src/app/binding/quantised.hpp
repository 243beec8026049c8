// Weights that a model stores as codes of fewer bits.
#pragma once

#include <vector>

#include "app/family/model.hpp"
#include "plan/bind/dequantise.hpp"

namespace shardweld::app {

/// Weights that are stored as codes, taken out of the catalogue where --dtype asks for their
/// values: a cast of codes would be wrong. Pure. Error(unsupported) for other types than bf16, for
/// what plan::take_encoded refuses, and, naming the quantisation, for tensors of one that is not
/// read: where values are asked for, and where a recipe would miss the weights.
std::vector<plan::EncodedWeight> encoded_weights(const HeldModel& prepared, const Job& job,
                                                 catalogue::Catalogue& catalogue);

/// Error(unsupported) for 8-bit floats that would be cast, folded into or quantised although no
/// scales were found for them, unless config.json says that the model's own type is such a float. A
/// warning where they are written as they are, and config.json says that they are codes.
void judge_unscaled(const models::Config& config, const Job& job, plan::Binding& binding);

}  // namespace shardweld::app

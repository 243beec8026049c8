// Weights of fewer bits around bind: read as codes, written as codes. Knows the options; what codes
// are and which weights have them is plan's.
#pragma once

#include <vector>

#include "shardweld/plan/dequantise.hpp"

#include "model.hpp"

namespace shardweld::app {

struct Bound;

/// Weights that are stored as codes, taken out of the catalogue where --dtype asks for their
/// values: a cast of codes would be wrong. Pure. Error(unsupported) for other types than bf16, and
/// for what plan::take_encoded refuses.
std::vector<plan::EncodedWeight> encoded_weights(const models::Config& config,
                                                 const Options& options,
                                                 catalogue::Catalogue& catalogue);

/// They become values. Pure.
void dequantise_bound(const std::vector<plan::EncodedWeight>& weights, Bound& bound);

/// --quantize: the weights that are bound become codes and scales. Nothing without the option.
/// Pure. Error(unsupported) as plan::quantise.
void quantise_bound(const PreparedModel& prepared, const Options& options, Bound& bound);

}  // namespace shardweld::app

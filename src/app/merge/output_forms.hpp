// The forms in which a bound model is written: codes and scales, llama.cpp's, and those of --also.
#pragma once

#include <vector>

#include "app/report/session.hpp"

#include "bound_model.hpp"

namespace shardweld::app {

/// A model for each output, of what is bound for the first: in the form that --quantize asks for,
/// every tensor of the others made of what is read for the first. Local. Errors as plan::bind and
/// plan::share_strips.
std::vector<BoundModel> output_models(const Outputs& outputs, BoundModel model);

}  // namespace shardweld::app

// The forms in which a bound model is written: codes and scales, llama.cpp's, and those of --also.
// Knows bindings and options; nothing of plans and ranks.
#pragma once

#include <vector>

#include "app/report/session.hpp"

#include "bound_model.hpp"

namespace shardweld::app {

/// Gives the model the form that --quantize asks for, and makes one for each of --also, in which
/// every tensor is made of what is read for the first. Local. Errors as plan::bind and
/// plan::share_strips.
std::vector<BoundModel> finish_outputs(Session& session, BoundModel& model);

}  // namespace shardweld::app

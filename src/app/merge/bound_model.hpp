// The third step of the main path, bind: surveyed checkpoints whose tensors are bound to their
// model, tied tensors settled, several mixed into one, and the forms in which it is written: codes
// and scales, llama.cpp's, and those of --also.
#pragma once

#include <vector>

#include "app/family/bound.hpp"
#include "app/report/session.hpp"
#include "plan/choice.hpp"

#include "sources.hpp"

namespace shardweld::app {

/// Collective. A model for each output, bound to what was surveyed, whose files, metadata and other
/// checkpoints move into them. Several checkpoints are bound one by one and mixed (--average,
/// --delta). Errors as plan::bind, plan::mixed and plan::share_strips; Error(mismatch) where tied
/// tensors or integers of several checkpoints differ.
std::vector<BoundModel> bind_outputs(const Outputs& outputs, Purpose sink, Sources& read,
                                     const plan::PlanChoice& choice);

}  // namespace shardweld::app

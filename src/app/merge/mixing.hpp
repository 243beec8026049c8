// Several checkpoints as one model: --average, --delta.
#pragma once

#include <vector>

#include "app/family/bound.hpp"
#include "app/report/session.hpp"
#include "app/survey/survey.hpp"
#include "plan/choice.hpp"

#include "sources.hpp"

namespace shardweld::app {

/// Collective. The lead's model, whose tensors are mixed of its own and the others', each bound as
/// it would be alone; the report has each checkpoint's part. Errors as bind_checkpoint and
/// plan::mixed; Error(mismatch) where integers differ.
BoundModel mix_in(Session& session, const Input& input, BoundModel lead, std::vector<Survey> others,
                  const plan::PlanChoice& choice);

}  // namespace shardweld::app

// Several checkpoints as one model: --average, --delta.
#pragma once

#include "app/family/bound.hpp"
#include "app/report/session.hpp"
#include "plan/choice.hpp"

#include "sources.hpp"

namespace shardweld::app {

/// Collective. The lead's model, whose tensors are mixed of its own and those of all inputs that
/// are to be mixed, each bound as it would be alone, the lead's where there are none; the report
/// has each checkpoint's part. Errors as bind_checkpoint and plan::mixed; Error(mismatch) where
/// integers differ.
BoundModel mix_in(Session& session, Sources& read, BoundModel lead, const plan::PlanChoice& choice);

}  // namespace shardweld::app

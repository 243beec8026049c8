// Several checkpoints as one model: --average, --task_arithmetic.
#pragma once

#include "app/family/model.hpp"
#include "app/report/run.hpp"
#include "plan/job_plan.hpp"

#include "state.hpp"

namespace shardweld::app {

/// Collective. The lead's model, whose tensors are mixed of its own and those of all inputs that
/// are to be mixed, each bound as it would be alone, the lead's where there are none; the report
/// has each checkpoint's part. Errors as bind_checkpoint and plan::mixed; Error(mismatch) where
/// integers differ.
HeldModel mix_in(const Run& run, Merge& merge, HeldModel lead, const plan::JobPlan& choice);

}  // namespace shardweld::app

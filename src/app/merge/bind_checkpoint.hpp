// One checkpoint, bound to its model.
#pragma once

#include "app/family/model.hpp"
#include "app/report/run.hpp"
#include "app/survey/input.hpp"
#include "catalogue/catalogue.hpp"
#include "plan/job_plan.hpp"

namespace shardweld::app {

/// Collective. Its metadata, and the files that lie beside its shards, move into the model. Copies
/// that must equal another tensor are compared with it, by the ranks that are here, and bound anew
/// as tensors of their own where they differ. Errors as plan::bind; Error(mismatch) where tied
/// tensors differ that may not.
HeldModel bind_checkpoint(const Run& run, const Input& input, ModelFiles files,
                          catalogue::Catalogue catalogue, const JobModel& wanted,
                          const plan::JobPlan& choice);

}  // namespace shardweld::app

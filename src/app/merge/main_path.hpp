// The main path from a checkpoint to a plan: find, survey, bind, plan. Each step makes a value of
// values, and none knows where finished tensors go.
#pragma once

#include <functional>
#include <vector>

#include "planned.hpp"

namespace shardweld::app {

/// Collective. Finds the checkpoint and the files of its model, which are right as far as they show
/// it themselves. Error as by find_checkpoint, read_model_files and check_model_files.
Sources find_sources(Session& session, const PlanRequest& request);

/// Called on all ranks of a group; may throw the same Error on all.
using BetweenSteps = std::function<void(mpi::Comm&)>;

/// Collective. The whole way; everything before the first tensor byte is written. The reports and
/// the log say what was found. Of ranks that see the same files only one plans, where that can be
/// handed to the others (node_planning.hpp): these have what moving tensors takes.
Planned plan_outputs(
    const Outputs& outputs, const PlanRequest& request, Sources sources,
    const BetweenSteps& between_steps = [](mpi::Comm&) {});

/// Collective. The way of a model whose tensors stay as they are stored.
Planned plan_as_stored(Session& session, const PlanRequest& request, Input input,
                       std::vector<plan::Target> targets);

/// Local. Puts the plans into the first rank's reports.
void report_plan(const Planned& planned);

}  // namespace shardweld::app

// The main path from a checkpoint to a plan: survey, prepare, bind, resolve ties, plan. Each step
// makes a value of values. Knows the order of the steps; nothing of where finished tensors go.
#pragma once

#include <functional>
#include <vector>

#include "planned.hpp"

namespace shardweld::app {

/// Collective. Finds the checkpoint and the files of its model, which are right as far as they show
/// it themselves. Error as by find_checkpoint, read_model_files and check_model_files.
Sources find_sources(Session& session, const Terms& terms);

/// Called on all ranks of a group; may throw the same Error on all.
using BetweenSteps = std::function<void(mpi::Comm&)>;

/// Collective. The whole way; everything before the first tensor byte is written. The report and
/// the log say what was found. Of ranks that see the same files only one plans, where that can be
/// handed to the others (node_planning.hpp): these have of `model` and `input` what moving tensors
/// takes.
Planned make_ready(
    Session& session, const Terms& terms, Sources sources,
    const BetweenSteps& between_steps = [](mpi::Comm&) {});

/// Collective. The way of a model whose tensors stay as they are stored.
Planned make_ready_as_stored(Session& session, const Terms& terms, Input input,
                             std::vector<plan::Target> targets);

/// Local. Puts the plan into the first rank's report.
void report_plan(Session& session, const Planned& planned);

}  // namespace shardweld::app

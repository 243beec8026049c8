// A merge, and the part of it that plan, test and diff share. Read merge.cpp first: each step is a
// function that completes the checkpoints and outputs of a Merge, in a file of its own.
#pragma once

#include <functional>

#include "mpi/comm.hpp"
#include "shardweld/error.hpp"

#include "state.hpp"

namespace shardweld::app {

/// A question whether to stop: asked on all ranks of a group between two steps; may throw the same
/// Error on all.
using BetweenSteps = std::function<void(mpi::Comm&)>;

/// Collective. From what find_inputs has found to the plans: everything before the first tensor
/// byte is written. The reports and the log say what was found. Of ranks that see the same files
/// only one plans, where that can be handed to the others (NodePlanning).
void plan_found(
    const Run& run, Merge& merge, const BetweenSteps& between_steps = [](mpi::Comm&) {});

/// Collective. Writes the outputs; then uploads the first, where that is asked for. Errors of every
/// step, the same on all ranks; Error(stopped) keeps what is done for the next run with the same
/// options. The body of run_reported.
ErrorCode merge_model(const Run& run);

}  // namespace shardweld::app

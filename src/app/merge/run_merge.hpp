// A merge, from finding the checkpoint to publishing the models: find, survey, bind, plan, execute,
// publish. Each step is a file of its own.
#pragma once

#include "app/report/session.hpp"

namespace shardweld::app {

/// Collective. Writes the outputs and their reports; uploads the first where its options ask for
/// it. Errors of every step, the same on all ranks; Error(stopped) keeps what is done for the
/// next run with the same options.
void merge_model(Outputs outputs);

}  // namespace shardweld::app

// A merge, from finding the checkpoint to publishing the model: find, survey, bind, plan, execute,
// publish. Each step is a file of its own.
#pragma once

#include "app/report/session.hpp"

namespace shardweld::app {

/// Collective. Merges as `session.options` say; the report is the session's. Uploads where they ask
/// for it. Errors of every step, the same on all ranks; Error(stopped) keeps what is done for the
/// next run with the same options.
void merge_model(Session& session);

}  // namespace shardweld::app

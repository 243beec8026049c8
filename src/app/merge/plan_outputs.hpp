// The fourth step of the main path, plan: all that is known before the first tensor byte moves.
#pragma once

#include <vector>

#include "plan/binding.hpp"

#include "state.hpp"

namespace shardweld::app {

/// Collective. A plan for each output, whose model is bound to what was read; config.json is true
/// of what will be written.
void plan_outputs(const Run& run, Merge& merge);

/// Collective. The plan of one output, whose tensors stay as they are stored in the merge's input.
void plan_as_stored(const Run& run, Merge& merge, plan::Targets targets);

/// Local. Puts the plans into the first rank's reports, and what they make into all.
void report_plans(const Run& run, Merge& merge);

/// Says what will be written, and where a dtype would be told that --dtype does not name.
void say_plans(const Run& run, const Merge& merge);

}  // namespace shardweld::app

// How far tensors have moved: for all that look on, and each rank's part for its own log.
// Knows a plan's sizes; nothing of what is run.
#pragma once

#include <functional>
#include <string>

#include "core/index.hpp"

#include "log.hpp"
#include "progress.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::app {

/// Shows a phase that is told how many bytes of this rank's part are finished.
std::function<void(Bytes done)> moving_shown(std::string phase, const plan::Plan& plan, int rank,
                                             Progress& progress, Log& log);

}  // namespace shardweld::app

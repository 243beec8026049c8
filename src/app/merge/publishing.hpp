// Writes planned models and publishes them: partial directory, journal, tensors, the files beside
// them, checks, one rename.
#pragma once

#include "app/runtime/stop.hpp"
#include "app/runtime/watchdog.hpp"

#include "main_path.hpp"

namespace shardweld::app {

/// Collective. Everything up to the last rename happens in the partial directory; its owner removes
/// it when anything fails, unless there is something to go on with: then the Error says so.
void write_and_publish(Planned& planned, const Stopping& stopping, Watchdog& watchdog);

}  // namespace shardweld::app

// The command that is run behind each step.
#pragma once

#include <string>

#include "app/messages/log.hpp"
#include "app/settings/options.hpp"
#include "core/path.hpp"

namespace shardweld::app::watching {

/// How a command ended.
struct ThenOutcome {
    std::string fault;         ///< "" where it ended well
    bool was_stopped = false;  ///< this process was told to stop meanwhile
};

/// Error(usage) where the program of --then is nowhere to be found. Local.
void require_then(const WatchRequest& request);

/// Runs --then behind a step and passes on what it prints. Local.
ThenOutcome run_then(const WatchRequest& request, const std::string& step, const fs::path& output,
                     Log& log);

}  // namespace shardweld::app::watching

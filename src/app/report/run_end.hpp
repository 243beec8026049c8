// Proof that a run came to its end, for the scripts that started it: a launcher may return 0 where
// nothing ran.
#pragma once

#include <string>

#include "core/path.hpp"

namespace shardweld::app {

/// How a run ended.
struct RunEnd {
    std::string command;  ///< its name: "merge"
    int code = 0;         ///< that the process is about to return
    std::string figures;  ///< RunReport in one line, "" where the command has none
};

/// Writes `end` to `path` (--done) as JSON, each field on a line of its own, with this version,
/// host and time, and with Slurm's job, step and restart count where there are any. One rank calls
/// it, after all else. Error(io), Error(space).
void write_run_end(const fs::path& path, const RunEnd& end);

}  // namespace shardweld::app

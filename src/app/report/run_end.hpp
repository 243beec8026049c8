// Proof that a run came to its end, for the scripts that started it: a launcher may return 0 where
// nothing ran.
#pragma once

#include <string>
#include <string_view>

#include "core/path.hpp"

namespace shardweld::app {

/// Writes to `path` (--done) how a run of `command` ended, as JSON, each field on a line of its
/// own: the code that the process is about to return, its figures in one line ("": it has none),
/// this version, host and time, and Slurm's job, step and restart count where there are any. One
/// rank calls it, after all else. Error(io), Error(space).
void write_run_end(const fs::path& path, std::string_view command, int code,
                   const std::string& figures);

}  // namespace shardweld::app

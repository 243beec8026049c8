// Commands that people give with an option, which are run without a shell.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "process.hpp"

namespace shardweld::process {

/// Process::withheld for a command: by these variables a launcher tells its processes that they are
/// ranks. The command is none, and may be an MPI program itself.
const std::vector<std::string>& variables_of_ranks();

/// "ended with exit code 3", "cannot be started: ..."; "" where it ended well. To be asked right
/// behind run(), which sets errno.
std::string fault_of(const std::optional<Ending>& ending);

}  // namespace shardweld::process

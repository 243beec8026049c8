// Outputs that are removed: the older ones under --keep.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::app::watching {

/// Whether a directory is an output that this program made of a step below `run`, as the report in
/// it says. Local; false where anything about it is in doubt.
bool is_own_output(const fs::path& output, const fs::path& run);

/// Whether it is one, and these (Options::output_options) are the options that led to it. Local.
bool was_made_with(const std::vector<std::string>& options, const fs::path& output,
                   const fs::path& run);

/// Outputs of steps in `out` beyond the `keep` newest, the oldest first. What is_own_output does
/// not vouch for is neither counted nor among them. Local. Error(io).
std::vector<std::string> outputs_beyond(Index keep, const fs::path& out, const fs::path& run);

/// Removes an output: it loses its name first, so that nobody finds half of it. Local. Error(io).
void remove_output(const fs::path& output);

/// Removes what a watch that was killed had begun to remove. Local. Error(io).
void finish_removals(const fs::path& out);

}  // namespace shardweld::app::watching

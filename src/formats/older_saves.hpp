// A save that did not end, and the older ones of its run. Knows names of iterations and the marks
// that trainers leave while they save; what a checkpoint is, it asks the formats.
#pragma once

#include "format.hpp"

namespace shardweld::formats {

/// locate, but for what is said of older saves where it fails.
Location locate_checkpoint(const InputRequest& request);

/// Error(not_found) where the trainer says that the save in `directory`, or the one it is part of,
/// did not end.
void require_finished(const fs::path& directory);

}  // namespace shardweld::formats

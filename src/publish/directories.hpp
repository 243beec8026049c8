// mkdir -p that can be taken back. Knows directories; nothing of what they are for.
#pragma once

#include <vector>

#include "core/path.hpp"

namespace shardweld::publish {

/// Makes a directory and those above it; adds what it made to `made`, outermost first, also when
/// it fails. Error(io), Error(space).
void make_directories(const fs::path& directory, std::vector<fs::path>& made);

/// Removes them again, innermost first, where others have put nothing there.
void remove_directories(std::vector<fs::path>& made) noexcept;

}  // namespace shardweld::publish

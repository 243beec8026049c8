// Files whose bytes lie in an archive only: where a file system has handed them to a tape (HSM).
#pragma once

#include <string>
#include <vector>

#include "core/path.hpp"

namespace shardweld::app {

/// Local; before anything of the files is read. A file that is released comes back as soon as it
/// is read, and one that is read behind another comes back behind it. Error(io) with how many of
/// `files` below the directory are, as `lfs hsm_state` (Lustre) or `mmlsattr` (GPFS) tell. Where
/// neither is there nothing is looked at; else a few files, and all when one of these has less on
/// disk than its size.
void require_not_released(const fs::path& directory, const std::vector<std::string>& files);

/// The file that a line of `lfs hsm_state` calls released; "" if it is of no such file.
std::string released_in(const std::string& line);

}  // namespace shardweld::app

// What directories hold. Knows names and kinds; a listing that a signal interrupts is begun again.
#pragma once

#include <filesystem>
#include <vector>

namespace shardweld::io {

/// The entries of a directory, in no order. Error(not_found) when there is none, Error(io) naming
/// it when it cannot be read.
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& directory);

/// The same of everything below it; links to directories are not followed.
std::vector<std::filesystem::directory_entry> entries_below(const std::filesystem::path& directory);

}  // namespace shardweld::io

// Quotas of this process's user, and of the group of files that it makes in a directory, from those
// who keep them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardweld/publish/room.hpp"

namespace shardweld::publish {

/// From the kernel; nullopt where it keeps none for this file system or does not say.
std::optional<std::vector<Quota>> kernel_quotas(const fs::path& directory);

/// From Lustre's `lfs quota`; nullopt without lfs in `path` or a word from it.
std::optional<std::vector<Quota>> lfs_quotas(const fs::path& directory, const std::string& path);

}  // namespace shardweld::publish

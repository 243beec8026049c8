// Quotas of this process's user, and of the group of files that it makes in a directory, from those
// who keep them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::publish {

/// What one quota leaves; nullopt: not limited.
struct Quota {
    std::string whose;  ///< "user 1000"
    std::optional<Bytes> bytes_left;
    std::optional<Bytes> files_left;
};

/// From the kernel; nullopt where it keeps none for this file system or does not say.
std::optional<std::vector<Quota>> kernel_quotas(const fs::path& directory);

/// From Lustre's `lfs quota`; nullopt without lfs in `path` or a word from it.
std::optional<std::vector<Quota>> lfs_quotas(const fs::path& directory, const std::string& path);

/// The answer of `lfs quota -q` (Lustre manual 25.4): the file system, then kilobytes, their quota,
/// limit and grace, then the same for files. nullopt when it is none. Pure.
std::optional<Quota> parse_lfs_quota(const std::string& said, const std::string& whose);

}  // namespace shardweld::publish

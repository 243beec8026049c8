// What a file system has left for new files: bytes, inodes and quotas, as far as the system tells.
// Knows file systems and Lustre's lfs; knows nothing of what will be written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

#include "quota.hpp"

namespace shardweld::publish {

struct Room {
    Bytes bytes_free = 0;             ///< for this user
    std::optional<Bytes> files_free;  ///< inodes; nullopt where they are made as needed
    bool knows_quotas = false;        ///< false: the system does not say
    std::vector<Quota> quotas;
    std::uint64_t device = 0;  ///< the file system's number
};

/// What is left where `directory` is, or will be made. Asks the file system (statvfs), the kernel
/// (quotactl_fd, Linux 5.14) and, on Lustre, `lfs quota` for user and group; `path` is the list of
/// directories to look for lfs in, such as PATH. Local. Error(io) when the file system cannot be
/// asked.
Room room_at(const fs::path& directory, const std::string& path);

/// What is missing for `bytes` in `n_files` new files, one text for each limit; empty: nothing.
/// `is_least`: it may be more. Pure.
std::vector<std::string> shortages(const Room& room, const fs::path& directory, Bytes bytes,
                                   Index n_files, bool is_least = false);

/// Error(space) with all shortages. Pure.
void require_room(const Room& room, const fs::path& directory, Bytes bytes, Index n_files,
                  bool is_least = false);

/// The directory itself, or the nearest one above it that exists. Local.
fs::path nearest_existing(const fs::path& directory);

}  // namespace shardweld::publish

// What a file system has left for new files (bytes, inodes and quotas, as far as the system and
// Lustre's lfs tell), and how new files of a directory are spread over the targets of a Lustre file
// system.
#pragma once

#include <cstdint>
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

/// From Lustre's `lfs quota`; nullopt without lfs in `path` or a word from it.
std::optional<std::vector<Quota>> lfs_quotas(const fs::path& directory, const std::string& path);

/// The answer of `lfs quota -q` (Lustre manual 25.4): the file system, then kilobytes, their quota,
/// limit and grace, then the same for files. nullopt when it is none. Pure.
std::optional<Quota> parse_lfs_quota(const std::string& said, const std::string& whose);

/// The space that a file system has left.
struct Room {
    Bytes bytes_free = 0;             ///< for this user
    std::optional<Bytes> files_free;  ///< inodes; nullopt where they are made as needed
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

/// The stripes of a file on Lustre.
struct Striping {
    Index count = 0;  ///< storage targets; -1: all
    Bytes size = 0;   ///< of one stripe; 0: the file system's default
    friend bool operator==(const Striping&, const Striping&) = default;
};

/// Makes files that will be created in a directory striped so, with `lfs setstripe`, the first lfs
/// in `path` (PATH's form). Local. Error(unsupported) when there is no lfs or it fails, with what
/// it said.
void set_striping(const fs::path& directory, const Striping& striping, const std::string& path);

}  // namespace shardweld::publish

// A lock that ends with its process, and who holds it.
// Knows one file; nothing of what the lock protects.
#pragma once

#include <string>

#include "shardweld/core/path.hpp"

namespace shardweld::publish {

/// Creates and locks the file, writing this host, process and `job` ("" if none) into it; the
/// descriptor holds the lock. Where the file system has no locks, the run that made the file holds
/// it until it is removed; that of a process of this host which is gone is. Error(target) naming
/// the holder when the lock is held by another run; Error(io). Returns -1 with errno when the
/// directory does not allow to create files.
int try_lock_file(const fs::path& path, const fs::path& target, const std::string& job);

/// Error(target) naming the holder when another run holds that lock; Error(io) when that cannot be
/// seen. Makes no file.
void require_free(const fs::path& path, const fs::path& target);

/// Removes the file and gives the lock back.
void unlock_file(int fd, const fs::path& path) noexcept;

}  // namespace shardweld::publish

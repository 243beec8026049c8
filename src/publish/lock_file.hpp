// A lock that ends with its process, and who holds it.
// Knows one file; nothing of what the lock protects.
#pragma once

#include <optional>

#include "core/path.hpp"

#include "holder.hpp"

namespace shardweld::publish {

/// Creates and locks the file, writing `own` into it; the descriptor holds the lock. Where the file
/// system has no locks, the run that made the file holds it until it is removed. A run that is over
/// (is_over) holds nothing. Error(locked) naming the holder when another run holds the lock;
/// Error(target) when the file is another user's and cannot be removed; Error(io). Returns -1 with
/// errno when the directory does not allow to create files.
int try_lock_file(const fs::path& path, const fs::path& target, const Holder& own);

/// Error(locked) naming the holder when another run holds that lock; Error(io) when that cannot be
/// seen. Makes no file.
void require_free(const fs::path& path, const fs::path& target, const Holder& own);

/// Whom a lock file names; nullopt where there is no file, nobody where it cannot be read.
std::optional<Holder> holder_in(const fs::path& path);

/// Removes the file and gives the lock back.
void unlock_file(int fd, const fs::path& path) noexcept;

}  // namespace shardweld::publish

// How a finished directory becomes the target: by renames.
// Knows two directories; nothing of locks or of what the files are for, but that indices come last.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shardweld::publish {

namespace fs = std::filesystem;

/// rename(2); Error(io).
void rename_or_throw(const fs::path& from, const fs::path& to);

/// fsync of a directory and all directories below. Error(io).
void sync_tree(const fs::path& directory);

/// Gives `partial` the name of `target` in one step, with the rights of the one it replaces, which
/// is removed; what of it cannot be removed is noted. Error(io) leaves the old target in place.
void replace_directory(const fs::path& partial, const fs::path& target,
                       std::vector<std::string>& notes);

/// Moves the files of `partial` (but its journal) into `target`, weights first, indices last, after
/// the weights of an older model are removed; then removes `partial`.
void move_files(const fs::path& partial, const fs::path& target);

}  // namespace shardweld::publish

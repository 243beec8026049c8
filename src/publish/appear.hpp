// How a finished directory becomes the target: by renames that can be taken back.
// Knows two directories; nothing of locks; of what the files are for only how a model is known.
#pragma once

#include <filesystem>

#include "renames.hpp"

namespace shardweld::publish {

namespace fs = std::filesystem;

/// fsync of a directory and all directories below. Error(io).
void sync_tree(const fs::path& directory);

/// Gives `partial` the name of `target` in one step, with the rights of the one it replaces.
/// Returns where the replaced one lies; "" if there was none. Error(io).
fs::path replace_directory(Renames& renames, const fs::path& partial, const fs::path& target);

/// Moves the files of `partial` (but its journal) into `target`, that by which a reader knows the
/// model last. Weights of an older model and what is in the way are put aside first, into a
/// directory that is returned; the journal has what is moved. Error(io).
fs::path move_files(Renames& renames, const fs::path& partial, const fs::path& target, bool sync);

}  // namespace shardweld::publish

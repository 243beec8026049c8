// What lies in a target: traces of runs, and files of a new model whose moving there was cut short.
// Knows names and sizes; nothing of what is in the files.
#pragma once

#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"
#include "io/directory.hpp"

namespace shardweld::publish {

/// Whether a directory holds more than the traces of an unfinished run. Error(io).
bool has_content(const io::Directory& directory);

/// Whether a partial directory's journal lists any block: its records have numbers for names,
/// the header has not. Error(io) when it cannot be looked at: it must not pass for none.
bool holds_work(const fs::path& partial);

/// Whether a directory holds the partial directory of a run that can be taken up and, beside it,
/// nothing but files that were moved out of there. Error(io).
bool is_half_published(const fs::path& target);

/// Writes into the journal which files (relative to `partial`) are about to be moved into the
/// target, and how large they are. Error(io), Error(space).
void note_moves(const fs::path& partial, const std::vector<fs::path>& files, bool sync);

/// The files in the target, relative to it, that were moved out of the partial directory in it: of
/// the noted name and size, and no longer where they came from. Error(io).
std::vector<fs::path> moved_files(const fs::path& target);

/// Moves them back, and forgets what was noted. Error(io).
void move_back(const fs::path& target);

}  // namespace shardweld::publish

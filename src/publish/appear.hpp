// How a finished directory becomes the target: by renames that can be taken back.
#pragma once

#include <optional>

#include "io/directory.hpp"

#include "renames.hpp"

namespace shardweld::publish {

/// fsync of a directory and all directories below. Error(io).
void sync_tree(const io::Directory& directory);

/// Error(io) unless each file is there as it was written.
void require_files(const io::Directory& directory, const io::Identities& files);

/// Error(target) when a partial directory holds files that are not to be published: others have put
/// them there.
void require_no_others(const io::Directory& partial, const io::Identities& files);

/// Gives `partial` the name of `target` in one step, with the rights of the one it replaces.
/// Returns where the replaced one lies; nullopt if there was none. Error(io).
std::optional<NameInDirectory> replace_directory(Renames& renames, const NameInDirectory& partial,
                                                 const NameInDirectory& target);

/// Moves the files of `partial` into `target`, that by which a reader knows the model last. Weights
/// of an older model and what is in the way are put aside first, into a directory that is returned;
/// the journal has what is moved. Error(io).
NameInDirectory move_files(Renames& renames, const io::Directory& partial,
                           const io::Directory& target, const io::Identities& files, bool sync);

}  // namespace shardweld::publish

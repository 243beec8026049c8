// Whether work that lies where a run would go on with it is this user's own.
#pragma once

#include <sys/types.h>

#include "core/path.hpp"

namespace shardweld::publish {

/// Whose files are that this process makes beside an open one of its own: not geteuid() where a
/// network file system maps users (NFS with root_squash, access points).
uid_t owner_of_new_files(int fd);

/// Local. Error(target) naming what is not `owner`'s alone of the partial directory, its journal
/// and the files in that: it belongs to someone else, is a link or no plain file, has other names,
/// or may be written by others; by its group only where this run makes files so too (umask), or
/// where the group may write in the directory above and so replace the whole of it anyway.
void require_own_work(const fs::path& partial, uid_t owner);

}  // namespace shardweld::publish

// Names of what a run keeps beside its target, or inside one that has no sibling, and what lies in
// a target: traces of runs, and files of a new model whose moving there was cut short.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/index.hpp"
#include "core/path.hpp"
#include "io/directory.hpp"

namespace shardweld::publish {

/// Traces of a run, as they are called inside a target; see beside().
inline constexpr const char* kPartialTrace = ".shardweld-partial";
inline constexpr const char* kLockTrace = ".shardweld-lock";
/// What the new model takes the place of, until all of it is there.
inline constexpr const char* kOldTrace = ".shardweld-old";
/// The journal, while the directory that it lay in gets the target's name; only beside a target.
inline constexpr const char* kJournalTrace = ".shardweld-journal";
/// An output that is being removed; only beside a target.
inline constexpr const char* kRemovedTrace = ".shardweld-removed";
/// In the partial directory.
inline constexpr const char* kJournal = "journal";
inline constexpr const char* kJournalHeader = "header.json";
/// In the journal of a directory that is about to get the target's name: its number.
inline constexpr const char* kNumber = "number";
/// In the journal of a run's first output: numbers of the others' directories that appear.
inline constexpr const char* kPublished = "published";

/// Whether this process is in a directory, which then cannot be exchanged for another. Local.
bool contains_current_directory(const fs::path& directory);
/// Whether another file system begins at a directory that exists. Error(io).
bool is_mount_point(const fs::path& directory);

/// By which a directory is known under another name, as long as it lives. Error(io).
std::string number_of(const fs::path& directory);

/// A trace beside a target, whose path has no trailing slash.
inline fs::path beside(const fs::path& target, const char* trace) {
    return target.parent_path() / ("." + target.filename().string() + trace);
}

/// Bytes on the disk of a path and all below it, and the last write.
struct DiskUse {
    Bytes bytes = 0;
    std::time_t last_write = 0;
};
/// Local. What cannot be seen is not counted.
DiskUse disk_use(const fs::path& path);

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

/// Whose files are that this process makes beside an open one of its own: not geteuid() where a
/// network file system maps users (NFS with root_squash, access points).
uid_t owner_of_new_files(int fd);

/// Local. Error(target) naming what is not `owner`'s alone of the partial directory, its journal
/// and the files in that: it belongs to someone else, is a link or no plain file, has other names,
/// or may be written by others; by its group only where this run makes files so too (umask), or
/// where the group may write in the directory above and so replace the whole of it anyway.
void require_own_work(const fs::path& partial, uid_t owner);

}  // namespace shardweld::publish

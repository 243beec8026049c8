// Names of what a run keeps beside its target, or inside one that has no sibling.
// Knows names, and where a sibling is of no use.
#pragma once

#include <string>

#include "core/path.hpp"

namespace shardweld::publish {

inline constexpr const char* kPartialInside = ".shardweld-partial";
inline constexpr const char* kLockInside = ".shardweld-lock";
/// What the new files take the places of, until all of them are there.
inline constexpr const char* kOldInside = ".shardweld-old";
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

/// Of a target without a trailing slash.
inline fs::path partial_beside(const fs::path& target) {
    return target.parent_path() / ("." + target.filename().string() + ".shardweld-partial");
}

/// What is replaced by two renames, where two names cannot be exchanged.
inline fs::path old_beside(const fs::path& target) {
    return target.parent_path() / ("." + target.filename().string() + ".shardweld-old");
}

inline fs::path lock_beside(const fs::path& target) {
    return target.parent_path() / ("." + target.filename().string() + ".shardweld-lock");
}

}  // namespace shardweld::publish

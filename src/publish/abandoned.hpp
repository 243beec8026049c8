// What merges that were killed left below a directory: partial directories as large as their
// models, lock files.
#pragma once

#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::publish {

/// Something that a run left, and what became of it.
struct Abandoned {
    enum class Fate {
        removed,
        listed,  ///< it would have been removed
        live,    ///< a run holds it
        young,   ///< written to too short a time ago
        kept,    ///< not this user's, or the only copy of a model that was being replaced
        failed,  ///< could not be removed
    };
    fs::path path;
    fs::path target;   ///< that it was to become
    Bytes bytes = 0;   ///< on the disk
    double age_s = 0;  ///< since the last write to it
    Fate fate = Fate::listed;
    std::string why;  ///< "" where it was removed or listed
};

/// Looks at `directory` and all below it (links are not followed), and at what a merge into
/// `directory` itself left. Removes what no run holds and nobody has written to for `older_than_s`,
/// unless it is a dry run: its lock is taken first, so that no run can
/// begin meanwhile. A model's files that a killed run had already moved into its target go back and
/// are removed with the rest. `unseen` gets the directories that may not be read.
/// Local. Error(not_found) where there is no such directory.
std::vector<Abandoned> clean(const fs::path& directory, double older_than_s, bool is_dry_run,
                             std::vector<fs::path>& unseen);

}  // namespace shardweld::publish

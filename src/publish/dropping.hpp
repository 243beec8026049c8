// What is kept of a checkpoint whose files are given back while its tensors are written elsewhere
// (--drop_consumed): the note that lies in it, and whether anything is gone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/path.hpp"

namespace shardweld::publish {

/// The name of the note, in the directory of the checkpoint's files.
inline constexpr const char* kDroppingNote = ".shardweld-dropping";

/// Where the content of a checkpoint goes.
struct DroppingNote {
    fs::path target;                 ///< resolved
    fs::path partial;                ///< where it is written meanwhile
    std::string number;              ///< of that directory, which gets the target's name
    bool is_published = false;       ///< the target is there
    std::vector<std::string> files;  ///< of the checkpoint, that go at the end; relative to it
};

/// Puts the note there, on the disk, in place of one that is there. Error(io), Error(space).
void write_note(const DroppingNote& note, const fs::path& checkpoint);
/// nullopt where there is none. Error(corrupt) for one that says nothing, Error(io).
std::optional<DroppingNote> note_in(const fs::path& checkpoint);
void remove_note(const fs::path& checkpoint);

/// Whether what a note tells of has appeared under the target's name. Local.
bool has_appeared(const DroppingNote& note);

/// Whether a partial directory is written from a checkpoint parts of which are gone: then it is all
/// there is of them. Local. Error(io).
bool has_dropped(const fs::path& partial);

/// Error(target) where that is so: `what` would remove it.
void require_nothing_dropped(const fs::path& partial, const std::string& what);

/// Error(not_found) where a checkpoint has a note of another target than `target` (""; of any):
/// parts of it may be gone. Whether parts are.
bool require_own_note(const fs::path& checkpoint, const fs::path& target);

}  // namespace shardweld::publish

// The files of a checkpoint, what of them is left aside, and what they say of their save and model.
#pragma once

#include <map>
#include <string>

#include "core/index.hpp"

namespace shardweld::catalogue {

/// A file that holds tensor data. `path` is relative to the checkpoint directory of the rank that
/// reads it.
struct File {
    std::string path;
    Bytes size = 0;
};

/// Things recognised and left aside.
struct Ignored {
    std::string pattern;
    std::string reason;
    Index count = 0;
    Bytes bytes = 0;
};

/// A configuration value as the checkpoint itself states it (args, transformer_config.json), to be
/// checked against config.json. Key: the framework's name; value: decimal, "true"/"false", or text.
using StatedConfig = std::map<std::string, std::string>;

/// What one place in one file says of the save it belongs to; judged in provenance.hpp.
struct FileAssertion {
    using Values = std::map<std::string, std::string>;

    std::string file;    ///< relative, as File::path
    std::string source;  ///< where it stands, for people: "its name", "args", "its device mesh"
    /// Which part of the save the file holds ("tp" -> "1"): two statements of one file agree on
    /// what both say, and no two files say the same of all of it.
    Values rank;
    /// Which save it is ("iteration" -> "10"): all statements of all files agree on what they say.
    Values save;
    /// false: a name or a tracker, which anybody changes; true: written by the saving job itself.
    bool is_inner = true;
    /// What the file holds, as far as it tells it from others ("" if not looked at): files of one
    /// likeness that do not state their rank could be exchanged and nothing would show it.
    std::string likeness = {};
};

}  // namespace shardweld::catalogue

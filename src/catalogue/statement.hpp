// What files say of the save they belong to.
#pragma once

#include <map>
#include <string>
#include <tuple>

namespace shardweld::catalogue {

/// A configuration value as the checkpoint itself states it (args, transformer_config.json), to be
/// checked against config.json. Key: the framework's name; value: decimal, "true"/"false", or text.
using Claims = std::map<std::string, std::string>;

/// What one place in one file says of the save it belongs to; judged in provenance.hpp.
struct Statement {
    std::string file;    ///< relative, as File::path
    std::string source;  ///< where it stands, for people: "its name", "args", "its device mesh"
    /// Which part of the save the file holds ("tp" -> "1"): two statements of one file agree on
    /// what both say, and no two files say the same of all of it.
    Claims rank;
    /// Which save it is ("iteration" -> "10"): all statements of all files agree on what they say.
    Claims save;
    /// false: a name or a tracker, which anybody changes; true: written by the saving job itself.
    bool is_inner = true;
    /// What the file holds, as far as it tells it from others ("" if not looked at): files of one
    /// likeness that do not state their rank could be exchanged and nothing would show it.
    std::string likeness = {};

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.file, self.source, self.rank, self.save, self.is_inner, self.likeness);
    };
};

}  // namespace shardweld::catalogue

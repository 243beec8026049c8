// The versions in a directory of deltas: which is the last, and what model it leads to.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

#include "delta_file.hpp"

namespace shardweld::app {

/// What the versions say that are there.
struct History {
    Index last = 0;                                ///< 0: none
    std::map<std::string, std::string> digest_of;  ///< by tensor, once the last one is applied

    static constexpr auto fields = [](auto& self) { return std::tie(self.last, self.digest_of); };
};

/// The last version that is there, 0 if none is. Local. Error(io).
Index last_version(const fs::path& directory);

/// Reads the indices and headers; a directory that is not there has no versions. Local.
/// Error(unsupported) for versions whose checksums are not xxh3-128, Error(corrupt), Error(io).
History read_history(const fs::path& directory);

/// "weight_v000001", and the "000001" in it.
std::string version_name(Index version);
std::string version_digits(Index version);

/// How many tensors of the old model are those that the last version leads to. Pure.
/// Error(mismatch) naming the first that is another one.
std::size_t require_base(const History& history, const std::vector<DeltaFile>& files,
                         const ModelPair& pair, const fs::path& directory);

/// Gives the files that were written as `part_name` their names, and writes the index beside them.
/// Local. The size of it all; Error(io), Error(space).
Bytes complete_version(const fs::path& directory, Index version,
                       const std::vector<DeltaFile>& files);

/// The name of a part's file until all are written.
std::string part_name(std::size_t part);

}  // namespace shardweld::app

// Runs the program that lists HDF5 files: the library is not trusted with files from others, so it
// works in a process of its own. Knows processes; nothing of what is listed.
#pragma once

#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::formats::hdf5 {

struct ListerLimits {
    int seconds = 120;                ///< of wall time
    Bytes bytes = Bytes{256} << 20U;  ///< that it prints
};

/// What `program` prints when it is given `file`. Error(corrupt) when it dies, fails, prints too
/// much or takes too long: that is the file's doing. Error(io) when it cannot be started.
std::vector<std::byte> run_lister(const fs::path& program, const fs::path& file,
                                  const ListerLimits& limits = {});

}  // namespace shardweld::formats::hdf5

// How new files of a directory are spread over the targets of a Lustre file system.
// Knows the program lfs; nothing of what is written.
#pragma once

#include <string>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::publish {

struct Striping {
    Index count = 0;  ///< storage targets; -1: all
    Bytes size = 0;   ///< of one stripe; 0: the file system's default
    friend bool operator==(const Striping&, const Striping&) = default;
};

/// Makes files that will be created in a directory striped so, with `lfs setstripe`, the first lfs
/// in `path` (PATH's form). Local. Error(unsupported) when there is no lfs or it fails, with what
/// it said.
void set_striping(const fs::path& directory, const Striping& striping, const std::string& path);

}  // namespace shardweld::publish

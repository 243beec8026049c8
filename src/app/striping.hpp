// --stripe: where the striping of new files is set, for every command that writes.
#pragma once

#include <cstdlib>

#include "options.hpp"

namespace shardweld::app {

/// Local, one rank, before files are made in `directory`. Error(unsupported) when it was asked for
/// and cannot be done.
inline void stripe(const fs::path& directory, const Options& options) {
    if (options.striping) {
        const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): no threads
        publish::set_striping(directory, *options.striping, path == nullptr ? "" : path);
    }
}

}  // namespace shardweld::app

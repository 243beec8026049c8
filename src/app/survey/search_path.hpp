// Where programs are looked for.
#pragma once

#include <cstdlib>
#include <string>

namespace shardweld::app {

/// PATH, "" when it is not set.
inline std::string search_path() {
    const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): no threads
    return path == nullptr ? "" : path;
}

}  // namespace shardweld::app

// --stripe: where the striping of new files is set, for every command that writes.
#pragma once

#include "../settings/options.hpp"
#include "../survey/search_path.hpp"

namespace shardweld::app {

/// Local, one rank, before files are made in `directory`. Error(unsupported) when it was asked for
/// and cannot be done.
inline void stripe(const fs::path& directory, const Options& options) {
    if (options.striping) {
        publish::set_striping(directory, *options.striping, search_path());
    }
}

}  // namespace shardweld::app

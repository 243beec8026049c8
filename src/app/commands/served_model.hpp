// A model directory as a loader finds it, for the rules of `shardweld check`.
#pragma once

#include "core/path.hpp"
#include "loaders/directory.hpp"

namespace shardweld::app {

/// Local. What cannot be read of a file of weights is told in the result; of the other files only
/// what the loader reads is looked at. Error(io) for a directory that cannot be listed and files
/// that cannot be read.
loaders::Directory read_served_model(const fs::path& directory, loaders::Loader loader);

}  // namespace shardweld::app

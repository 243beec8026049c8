// Paths, by the short name that all modules have for them.
#pragma once

#include <filesystem>

namespace shardweld {

namespace fs = std::filesystem;

}  // namespace shardweld

// The config.json of a real checkpoint.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "models/config.hpp"

namespace shardweld::reshape {

inline models::Config config_in(const std::filesystem::path& file) {
    std::ifstream in(file);
    return models::Config::parse({std::istreambuf_iterator<char>(in), {}}, "config.json");
}

}  // namespace shardweld::reshape

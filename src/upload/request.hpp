// What an upload is asked for, and what it needs besides the model.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/path.hpp"

namespace shardweld::upload {

/// Reads an environment variable; nullopt when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct UploadRequest {
    fs::path directory;
    std::string repository;  ///< ORG/NAME
    bool is_private = false;
    std::optional<fs::path> client;  ///< not given: `hf`, else `huggingface-cli`, on PATH
};

/// What an upload needs besides the model.
struct Access {
    fs::path client;
    std::vector<std::string> secrets;  ///< never shown: *** stands for them
};

}  // namespace shardweld::upload

// The index of a model in several files, as it is written.
// Knows its JSON; nothing of the files it names.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "shardweld/core/index.hpp"

namespace shardweld::app {

inline constexpr const char* kWeightIndexName = "model.safetensors.index.json";

/// What the index says.
struct WeightIndex {
    std::map<std::string, std::string> file_of;  ///< by tensor
    std::optional<Bytes> total_size;
};

/// Error(corrupt) when it is no JSON object with a weight_map of file names.
WeightIndex read_weight_index(const std::filesystem::path& path);

/// Whether a name is that of a file in the same directory.
bool is_plain_name(const std::string& name);

}  // namespace shardweld::app

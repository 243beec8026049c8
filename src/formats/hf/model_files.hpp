// Which files of a directory are a HuggingFace model's weights.
// Knows file names and the index; nothing of what weight files hold.
// Sources: transformers 5.23 modeling_utils.py, colossalai 0.5.0 checkpoint_io.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardweld/formats/format.hpp"

#include "../directory.hpp"

namespace shardweld::formats::hf {

/// Which file each tensor is in.
struct WeightMap {
    std::vector<std::string> files;
    std::map<std::string, Index> file_of;  ///< tensor name -> index into `files`
};

struct ModelFiles {
    std::string index;                 ///< file with the weight map, "" if there is none
    std::vector<std::string> weights;  ///< relative to the directory, natural order
};

/// nullopt when the directory holds no weights. safetensors come before torch files, an index
/// before file names. Error(mismatch) when two models lie in it, Error(not_found) when files are
/// numbered and some are missing; errors of read_weight_map.
std::optional<ModelFiles> find_model_files(const fs::path& directory, const Listing& listing);

/// The weight_map of an index; memory: its text and the map. Error(corrupt) when malformed, empty,
/// or when a file's path leaves the directory.
WeightMap read_weight_map(const fs::path& index);

}  // namespace shardweld::formats::hf

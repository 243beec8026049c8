// Which files of a directory are a HuggingFace model's weights.
// Sources: transformers 5.23 modeling_utils.py, colossalai 0.5.0 checkpoint_io.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/weight_map.hpp"
#include "formats/format.hpp"
#include "formats/shared/directory_listing.hpp"

namespace shardweld::formats::hf {

struct WeightFiles {
    std::string index;                 ///< file with the weight map, "" if there is none
    std::vector<std::string> weights;  ///< relative to the directory, natural order

    /// The weights, and behind them the index.
    [[nodiscard]] std::vector<std::string> all() const;
};

/// nullopt when the directory holds no weights. safetensors come before torch files, an index
/// before file names. Error(mismatch) when two models lie in it, Error(not_found) when files are
/// numbered and some are missing; errors of read_weight_map.
std::optional<WeightFiles> find_model_files(const fs::path& directory, const Listing& listing);

/// The index at this path; errors of parse_weight_map.
WeightMap read_weight_map(const fs::path& index);

}  // namespace shardweld::formats::hf

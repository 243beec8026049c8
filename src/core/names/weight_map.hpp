// The index of a model in several files: model.safetensors.index.json and its kin.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/index.hpp"

namespace shardweld {

/// Which file each tensor is in.
struct WeightMap {
    std::vector<std::string> files;        ///< relative to the model's directory
    std::map<std::string, Index> file_of;  ///< tensor name -> index into `files`
    std::optional<Bytes> total_size;       ///< as stated
    bool has_metadata = false;             ///< an object, which may be empty

    /// The file of an entry of file_of.
    [[nodiscard]] const std::string& file(Index number) const {
        return files.at(static_cast<std::size_t>(number));
    }
};

/// Larger indices are not read.
inline constexpr Bytes kLongestWeightMap = Bytes{256} << 20U;

/// Memory: the map. Where keys are equal the last counts, as for every loader. Error(corrupt),
/// which calls the file `origin`, when it is not a JSON object with a weight_map of tensors and
/// their files, or the path of one leaves the directory.
WeightMap parse_weight_map(const std::string& text, const std::string& origin);

}  // namespace shardweld

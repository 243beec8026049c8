// The reference of --layout_like: a model whose files, headers and small files a written model gets
// where it is the same.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "core/path.hpp"
#include "outputs/layout_like.hpp"
#include "publish/assets.hpp"

namespace shardweld::app {

struct ReferenceModel {
    outputs::ReferenceLayout layout;
    std::string config;  ///< the text of its config.json; "": it has none

    static constexpr auto fields = [](auto& self) { return std::tie(self.layout, self.config); };
};

/// Reads the headers of the weights in a directory: of the files that its index names, else of all
/// *.safetensors. Nothing is believed that a header or the index does not say. Local.
/// Error(not_found) where there is no directory, no such file, or not every file of the index;
/// Error(corrupt) as formats::read_safetensors and parse_weight_map; Error(mismatch) for a tensor
/// in two files, two indices, or an index that no file bears out; Error(unsupported) for weights
/// that are no safetensors, files below subdirectories, and headers of more than 1 GiB.
ReferenceModel read_reference_model(const fs::path& directory);

/// Whether two texts are JSON of the same values.
bool is_same_json(const std::string& a, const std::string& b);

/// Puts the reference's file in the place of each of `assets` that is JSON of the same values.
/// Local. Errors of publish::collect_assets.
void keep_same_assets(const fs::path& directory, std::vector<publish::Asset>& assets);

}  // namespace shardweld::app

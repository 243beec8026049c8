// HuggingFace model directories as an input: weight files of one model put together and held
// against their index.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/names/weight_map.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/format.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/typed_scan.hpp"

namespace shardweld::formats::hf {

/// The files of a directory that are a model's weights, in natural order, and behind them their
/// index, if there is one; none when the directory holds no weights. safetensors come before torch
/// files, an index before file names. Error(mismatch) when two models lie in it, Error(not_found)
/// when files are numbered and some are missing; errors of read_weight_map.
std::vector<std::string> find_model_files(const fs::path& directory, const Listing& listing);

/// The index at this path; errors of parse_weight_map.
WeightMap read_weight_map(const fs::path& index);

/// The names and places of a weight file's tensors, or what an index (*.json) says of them.
ScanOf<WeightMap> scan_weights_or_index(const Location& location, const std::string& file);

/// What becomes of a tensor in another file than the index says.
enum class UnindexedTensors { left_aside, compared };

/// Format::scan and combine of formats whose shard files are the weight files of one model, with or
/// without indices. All tensors of all files; a name in several files is one tensor with replicas.
/// With one or more indices, tensors that none names are left aside with a warning; those that one
/// places elsewhere as `strays` says. Error(mismatch) when dtypes or shapes of one name differ,
/// Error(not_found) when files of a numbered set, tensors of the index or all tensors are missing.
Catalogue join_weights(const Location& location, std::vector<ScanOf<WeightMap>> scans,
                       UnindexedTensors strays);

/// Error(usage) where a directory holds such files, but under names of wrappers or of PEFT, from
/// which nothing loads them. Looks at the first file of weights or their index.
void refuse_wrapped(const fs::path& directory);

}  // namespace shardweld::formats::hf

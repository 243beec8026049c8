// The scans of a checkpoint's files put together, and what a shard of torch's HuggingFace storage
// writer says about itself: DCP_SHARDING_INFO in its safetensors metadata. Source: torch 2.15
// torch/distributed/checkpoint/_hf_utils.py, filesystem.py.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/format.hpp"
#include "formats/shared/assembler.hpp"

namespace shardweld::formats::dcp {

/// One catalogue of all scans. Tensors of one name become one; the same box in different files is
/// stored again: a replica. Error(mismatch) naming the tensor when dtypes or stated shapes differ.
Catalogue join(std::vector<Scan> scans, Shapes shapes);

/// Checks that each tensor's pieces cover it once; Error(corrupt) when not. With a `missing_hint`
/// of what may be the reason, too few elements are Error(not_found).
void require_complete(const Catalogue& catalogue, const std::string& missing_hint);

/// Requires one number at least, and all from `first` to the last. Error(not_found) naming those
/// left out as `before` N `after`.
void require_all_numbers(const std::set<Index>& numbers, Index first, const std::string& before,
                         const std::string& after);

inline constexpr const char* kShardingInfo = "DCP_SHARDING_INFO";

/// Tensor name -> where its part begins in the whole tensor (elements, one for each axis).
using ShardOffsets = std::map<std::string, std::vector<Index>>;

/// Parses {name: {"saved_offsets": [...]}}. Error(corrupt) naming the tensor when malformed.
ShardOffsets parse_sharding_info(const std::string& json);

}  // namespace shardweld::formats::dcp

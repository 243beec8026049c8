// A model that torch consolidated from shards which lie below it, in sharded/.
#pragma once

#include <vector>

#include "core/path.hpp"
#include "formats/catalogue_words.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats::hf {

/// Holds the tensors of a file that have no dimensions against the shards: torch's consolidation
/// writes them as 0 (torch 2.15, torch/distributed/checkpoint/_consolidate_hf_safetensors.py).
/// Local; opens nothing where there are no such tensors or no shards. Error(mismatch) naming the
/// tensor and the shard where they differ.
void require_scalars_of_shards(const fs::path& directory, const io::InputFile& file,
                               const std::vector<Tensor>& tensors);

}  // namespace shardweld::formats::hf

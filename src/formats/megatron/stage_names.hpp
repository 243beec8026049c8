// Whether the ranks of one pipeline stage hold tensors of the same names.
// Knows files and places; nothing of what a name means or how a tensor is split.
#pragma once

#include <vector>

#include "catalogue/file.hpp"
#include "catalogue/tensor.hpp"

namespace shardweld::formats::megatron {

/// All tensor- and expert-parallel ranks of a stage build the same modules. Error(not_found) naming
/// a tensor that one file of a stage has and another lacks; `places` are those of `files`.
void require_same_names(const std::vector<catalogue::Shard>& shards,
                        const std::vector<catalogue::File>& files,
                        const std::vector<catalogue::Coordinates>& places);

}  // namespace shardweld::formats::megatron

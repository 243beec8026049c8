// What both kinds of Megatron directories share: stages, the iteration's directory, extra state.
// Knows nothing of how either stores tensors.
#pragma once

#include <string>

#include "checkpoint.hpp"

namespace shardweld::bench {

/// Decoder layers that one virtual stage holds.
struct Stage {
    Index first_layer = 0;
    Index n_layers = 0;
    bool is_first = false;
    bool is_last = false;
};

Stage stage_of(const Checkpoint& checkpoint, Index pp, Index vpp);

/// Makes OUT/source/iter_0000001 and the file that names it. Error(target) if OUT/source exists.
std::filesystem::path make_iteration_directory(const std::filesystem::path& out);

/// Sizes of all files below, added up.
Bytes bytes_below(const std::filesystem::path& directory);

/// Whether Transformer Engine keeps a state beside the tensor, and its name.
bool has_extra_state(const Shard& shard);
std::string extra_state_of(const std::string& weight);

}  // namespace shardweld::bench

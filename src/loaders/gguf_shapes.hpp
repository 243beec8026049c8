// Extents that a GGUF file's tensors have by its metadata.
// Sources: llama.cpp b11549 as xllamacpp 2026.10 has it, run on files with each tensor in another
// shape and each number changed.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"

namespace shardweld::loaders {

/// Architectures of plain decoders and MLA, whose layers are gated and have both norms.
inline constexpr std::array<std::string_view, 13> kShapedGguf = {
    "llama",   "mistral3",   "qwen2", "qwen2vl", "qwen2moe", "qwen3",    "qwen3moe",
    "qwen3vl", "qwen3vlmoe", "gemma", "gemma2",  "gemma3",   "deepseek2"};

/// A number of the architecture ("block_count"), nullopt where there is none for the whole model.
using GgufNumber = std::function<std::optional<Index>(const std::string& key)>;

/// "blk.0.attn_k.weight [32, 64], not [16, 64]" of each tensor that llama.cpp would refuse; only of
/// tensors whose extents the metadata tells, in the architectures above.
std::vector<std::string> wrong_gguf_shapes(
    const std::string& architecture, const GgufNumber& number,
    const std::map<std::string, std::vector<Index>>& tensors);

}  // namespace shardweld::loaders

// quantization_config as loaders read it, and how quantised weights are named.
// Sources: transformers 5.23 quantizers/, compressed-tensors 0.20 quantization/quant_config.py.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "shardweld/core/regex.hpp"
#include "shardweld/loaders/directory.hpp"

namespace shardweld::loaders {

enum class Method {
    none,                ///< no quantization_config
    fp8,                 ///< 8-bit floats with a scale a block, or a tensor
    compressed_tensors,  ///< of vLLM's project
    mxfp4,               ///< gpt-oss: blocks and scales of experts
    other,               ///< not known here
};

struct Scheme {
    Method method = Method::none;
    std::string method_text;          ///< as stated
    std::optional<Index> block_rows;  ///< fp8: of weight_block_size; compressed: block_structure
    std::optional<Index> block_columns;
    std::optional<Index> group_size;   ///< compressed-tensors: weights that share a scale
    std::optional<Index> num_bits;     ///< compressed-tensors: of a weight
    std::string strategy;              ///< compressed-tensors: channel, group, block, ...
    std::string status;                ///< compressed-tensors: quantization_status
    std::vector<std::string> ignored;  ///< modules that stay as they are

    /// Whether `module` ("model.layers.0.mlp.gate") is on the list, as the loaders read it: a name,
    /// what such a name begins, "re:" and an expression, or a name with '*'.
    [[nodiscard]] bool ignores(std::string_view module) const;
};

/// Of `quantization_config`, or null. Fields of another type count as absent.
Scheme scheme_of(const nlohmann::json& quantization_config);

/// A linear layer with the parts that are stored of it.
struct Module {
    std::string name;                      ///< without the part ("model.layers.0.mlp.up_proj")
    const StoredTensor* weight = nullptr;  ///< plain or 8 bits wide
    const StoredTensor* scale = nullptr;   ///< weight_scale_inv or weight_scale
    const StoredTensor* packed = nullptr;  ///< weight_packed
    const StoredTensor* global = nullptr;  ///< weight_global_scale

    [[nodiscard]] bool is_quantised() const { return scale != nullptr || packed != nullptr; }
    /// The last component ("up_proj").
    [[nodiscard]] std::string_view kind() const;
    /// Rows and columns of the weight that is meant, packed or not; nullopt where they cannot be
    /// told.
    [[nodiscard]] std::optional<std::pair<Index, Index>> extents(const Scheme& scheme) const;
};

/// All modules with a weight of two axes, packed or not, by name.
std::map<std::string, Module> modules_of(const std::map<std::string, StoredTensor>& tensors);

}  // namespace shardweld::loaders

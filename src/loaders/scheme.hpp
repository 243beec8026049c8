// quantization_config as loaders read it, and how quantised weights are named.
// Sources: transformers 5.24 quantizers/, compressed-tensors 0.20 quantization/quant_config.py and
// utils/match.py.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "directory.hpp"

namespace shardweld::loaders {

/// The value of a configuration's field, null where there is none or `object` is none.
nlohmann::json value_in(const nlohmann::json& object, const char* name);
/// A field that is a text, "" for all else; one that is a whole number.
std::string text_in(const nlohmann::json& object, const char* name);
std::optional<Index> number_in(const nlohmann::json& object, const char* name);

enum class Method {
    none,                ///< no quantization_config
    fp8,                 ///< 8-bit floats with a scale a block, or a tensor
    compressed_tensors,  ///< of vLLM's project
    mxfp4,               ///< gpt-oss: blocks and scales of experts
    other,               ///< not known here
};

/// How the weights of some modules are quantised.
struct Group {
    std::optional<Index> block_rows;  ///< fp8: of weight_block_size; compressed: block_structure
    std::optional<Index> block_columns;
    std::optional<Index> group_size;  ///< compressed-tensors: weights that share a scale
    std::optional<Index> num_bits;    ///< compressed-tensors: of a weight
    std::string strategy;             ///< compressed-tensors: channel, group, block, ...
    bool is_float = true;             ///< compressed-tensors: codes are floats, not integers
};

struct Scheme {
    Method method = Method::none;
    std::string method_text;  ///< as stated
    std::vector<Group> groups;
    /// The targets of each group: names, "re:" and an expression, or classes. Without groups the
    /// first, which has all layers, has none.
    std::vector<std::vector<std::string>> targets;
    std::string status;                ///< compressed-tensors: quantization_status
    std::vector<std::string> ignored;  ///< modules that stay as they are

    /// Whether `module` ("model.layers.0.mlp.gate") is on the list, as the loaders read it: a name,
    /// what such a name begins, "re:" and an expression, or a name with '*'.
    [[nodiscard]] bool ignores(std::string_view module) const;
    /// The group that a linear layer belongs to (core/module_targets); nullptr for none.
    [[nodiscard]] const Group* group_of(std::string_view module) const;
    /// compressed-tensors: whether no group's targets name the layer.
    [[nodiscard]] bool is_in_no_group(std::string_view module) const;
    /// Whether what is stored of a module can be held against it.
    [[nodiscard]] bool is_known() const { return method != Method::other; }
};

/// Reads `quantization_config`, which may be null. Fields of another type count as absent.
Scheme scheme_of(const nlohmann::json& quantization_config);

/// A linear layer with the parts that are stored of it.
struct Module {
    std::string name;                      ///< without the part ("model.layers.0.mlp.up_proj")
    const StoredTensor* weight = nullptr;  ///< plain, or codes of 8 bits
    const StoredTensor* scale = nullptr;
    std::string_view scale_name;           ///< weight_scale_inv, weight_scale or scale
    const StoredTensor* packed = nullptr;  ///< weight_packed
    const StoredTensor* global = nullptr;  ///< weight_global_scale
    std::string other;  ///< a part of an encoding that is not known here ("qweight")

    [[nodiscard]] bool is_quantised() const;
    /// Whether its weight is codes of 8 bits.
    [[nodiscard]] bool has_codes() const;
    /// The last component ("up_proj").
    [[nodiscard]] std::string_view kind() const;
    /// Rows and columns of the weight that is meant, packed or not; nullopt where they cannot be
    /// told.
    [[nodiscard]] std::optional<std::pair<Index, Index>> extents(const Scheme& scheme) const;
};

/// All modules with a weight of two axes, or what stands for one, by name.
std::map<std::string, Module> modules_of(const std::map<std::string, StoredTensor>& tensors);

/// Codes of 8 bits and less.
bool is_codes(DType dtype);

/// Whether the name says that it is a part of a quantised weight, in any encoding: codes, scales,
/// zero points, tables.
bool is_part_of_codes(std::string_view name);

}  // namespace shardweld::loaders

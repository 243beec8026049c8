// What the names of a PEFT model's tensors tell: what each is, how it is called without PEFT and in
// a saved adapter, and which modules the adapter changes. Facts: PEFT's names (peft 0.21).
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/index.hpp"

namespace shardweld::adapters {

/// What stands in front of every name that PEFT saves.
inline constexpr const char* kPrefix = "base_model.model.";

/// The part that a stored tensor plays in a PEFT model.
enum class TensorRole {
    base,      ///< a tensor PEFT left as it is
    wrapped,   ///< of a module that LoRA wraps (`.base_layer.`)
    original,  ///< of a module trained as a whole, before the training (`.original_module.`)
    // The adapter's:
    whole,    ///< as `original`, trained (`.modules_to_save.NAME.`, saved `.modules_to_save.`)
    saved,    ///< as `base`, but of an adapter that PEFT saved: it replaces the base's
    former,   ///< as `original`, but of an adapter that PEFT saved: what the base had
    factor,   ///< of LoRA itself
    rows,     ///< of an embedding, trained on their own (`.token_adapter.`)
    foreign,  ///< of another kind of adapter
};

/// A stored name of a PEFT model, taken apart.
struct PeftName {
    TensorRole role = TensorRole::base;
    std::string module_name;   ///< in the module tree without PEFT; factors: of the wrapped module
    std::string whole_module;  ///< TensorRole::whole: the module that was trained
    std::string saved_name;    ///< in adapter_model.safetensors
    std::string adapter_name;  ///< "default"; "" where the name has none
    std::string component;     ///< of a factor: "lora_A", "lora_B.bias"
    /// How many wrappers of the same module are around a factor's own. Each of several
    /// parameters that are wrapped on their own (target_parameters) has one.
    Index depth = 0;
    /// The factors of all experts in one tensor, as NeMo Automodel has them: A is [experts, in,
    /// rank], B [experts, rank, out].
    bool is_grouped = false;
};

/// Reads a name as PEFT's modules make them, with or without `base_model.model.` in front.
PeftName read_name(const std::string& stored);

/// A tensor of an adapter under the name it is saved by.
struct SavedTensor {
    std::string name;
    std::vector<Index> shape;
};

/// One wrapped module. Members that count are indices into the list it was made from.
struct Module {
    std::string path;           ///< in the module tree without PEFT: "model.layers.0.mlp.up_proj"
    bool is_embedding = false;  ///< its weight is [n_in, n_out] (Embedding), not [n_out, n_in]
    bool is_matrix = true;      ///< false: factors of a convolution
    bool is_parameter = false;  ///< a parameter that is wrapped on its own, see parameters.hpp
    Index depth = 0;            ///< how many wrappers of the same module are around this one
    Index rank = 0;
    Index n_pairs = 1;  ///< of factors, each of that rank, in one: A below A, B beside B
    Index n_in = 0;
    Index n_out = 0;
    std::size_t a = 0;                     ///< [rank, n_in]
    std::size_t b = 0;                     ///< [n_out, rank]
    std::optional<std::size_t> magnitude;  ///< DoRA: [n_out]
    std::optional<std::size_t> bias;       ///< lora_B's: [n_out]
};

/// In the order of the paths. Error(mismatch) for a factor without its partner and for shapes that
/// do not fit each other. Tensors that are no factors are passed over.
std::vector<Module> modules_of(std::span<const SavedTensor> tensors);

/// Rows of an embedding or a head that were trained on their own: row i of the tensor is that of
/// the token `tokens[i]`.
struct TokenRows {
    std::string path;  ///< of the module
    std::size_t tensor = 0;
    std::vector<Index> tokens;
    Index n_cols = 0;
};

/// What else the adapter's configuration depends on.
struct KnownModules {
    std::vector<std::string> whole_modules;  ///< trained as a whole
    std::set<std::string> base_modules;      ///< all modules of the base with a weight
    std::optional<Index> n_layers;           ///< stands in for base_modules where there is no base
    std::vector<std::string> saved_tensors = {};  ///< beside the factors, under the base's names
};

}  // namespace shardweld::adapters

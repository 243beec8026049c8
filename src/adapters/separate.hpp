// A checkpoint of a PEFT model taken apart: the base under the names it has without PEFT, the LoRA
// adapter under those save_pretrained gives it. Facts: PEFT's names (peft 0.21).
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"

namespace shardweld::adapters {

/// Which biases of the base were trained and belong to the adapter too (`bias` of
/// adapter_config.json).
enum class Biases { none, all, of_wrapped };

/// Which weights the base gets where a module was trained as a whole (`modules_to_save`).
enum class WholeModules {
    original,  ///< those from before the training; the trained ones are the adapter's
    trained,   ///< the trained ones, as a folded model has them
};

/// How a checkpoint is taken apart.
struct Deal {
    Biases biases = Biases::none;
    WholeModules whole = WholeModules::original;
    bool is_dropped = false;  ///< the adapter is left out, of whatever kind it is
    /// The name under which bind sees a tensor: an adapter has those of the module tree, its base
    /// may have those of the hub's files.
    std::function<std::string(const std::string&)> hub_name = [](const std::string& name) {
        return name;
    };
};

/// A checkpoint of a PEFT model taken apart into the base's tensors and the adapter's.
struct Separated {
    catalogue::Catalogue base;     ///< no tensors when only the adapter was saved
    catalogue::Catalogue adapter;  ///< named as in adapter_model.safetensors; same list of files
    std::vector<std::string> whole_modules;  ///< modules trained as a whole, sorted
    std::vector<std::string> saved_tensors;  ///< of the adapter, under the base's names
    std::vector<std::string> bare_modules;   ///< that LoRA wraps and has no factor of, sorted
    std::string grouped;            ///< a tensor that held the factors of all experts; "": none did
    std::set<std::string> in_both;  ///< names of the adapter's tensors that are the base's, too
    std::vector<catalogue::Ignored> replaced;  ///< of the base, by those trained as a whole
};

/// Makes `copy` pieces of `kept` that must equal it. Error(mismatch) where it has another type or
/// shape.
void join_copy(catalogue::Tensor& kept, catalogue::Tensor copy);

/// Whether some tensor is part of an adapter.
bool holds_adapter(const catalogue::Catalogue& catalogue);

/// Whether there is an adapter and nothing else.
bool holds_adapter_only(const catalogue::Catalogue& catalogue);

/// Whether some module of the base is stored as LoRA wraps it.
bool holds_wrapped(const catalogue::Catalogue& catalogue);

/// Weights that an adapter changes, under the names of the module tree without PEFT.
struct ChangedWeights {
    std::set<std::string> by_factors;
    std::set<std::string> as_whole;  ///< trained, or saved with the adapter for their new rows
    std::set<std::string> by_rows;   ///< of single tokens
};

ChangedWeights changed_weights(const catalogue::Catalogue& catalogue);

/// Takes a catalogue of module names apart. What PEFT saved with the factors alone (trained biases,
/// whole modules, embeddings) is the adapter's, under the base's names as it may be. Unless the
/// adapter is dropped, Error(unsupported) for more than one, for adapters of other kinds than LoRA
/// and for parts that are no tensors, naming one.
Separated separate(catalogue::Catalogue catalogue, const Deal& deal);

}  // namespace shardweld::adapters

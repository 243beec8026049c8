// LoRA of parameters that hold the matrices of all experts (PEFT's target_parameters): which
// parameter a module's factors change, and where its elements stand among a model's tensors.
// Facts: PEFT's ParamWrapper (peft 0.20 tuners/lora/layer.py) and recipes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/recipe.hpp"
#include "models/symbols.hpp"
#include "plan/binding.hpp"

#include "declared.hpp"
#include "peft_names.hpp"
#include "settings.hpp"

namespace shardweld::adapters {

/// Along a dim of a target's matrix: which dim of the parameter's it is, where it begins there and
/// how many elements further the next one stands.
struct Along {
    bool is_first = true;
    Index start = 0;
    Index step = 1;
    friend bool operator==(const Along&, const Along&) = default;
};

/// What a target holds of a parameter: one matrix or, without `batch`, all of them.
struct ParameterPart {
    std::string target;
    std::optional<Index> batch;
    Along rows;
    Along cols;
};

/// A parameter [n_batches, n_first, n_second].
struct LoraParameter {
    std::string path;  ///< in the module tree: "model.layers.0.mlp.experts.gate_up_proj"
    Index n_batches = 0;
    Index n_first = 0;
    Index n_second = 0;
    bool is_turned = false;  ///< it holds the transposes of B A
    std::vector<ParameterPart> parts;
    bool is_matrix = false;  ///< of two dims, whose last one is the input's
};

/// Marks the modules that are parameters, as far as names and adapter_config.json tell; gives the
/// entries of its target_parameters of which there is none.
std::vector<std::string> mark_parameters(std::span<Module> modules, const SettingsSources& sources);

/// What finding a parameter needs to know.
struct ParameterSurroundings {
    const models::Recipe* recipe = nullptr;
    const models::Symbols* symbols = nullptr;
    /// The name under which bind sees a tensor of the module tree.
    std::function<std::string(const std::string&)> hub_name;
    std::map<std::string, std::vector<Index>> shapes;  ///< of the targets
    std::string config_path;                           ///< of adapter_config.json
    Release release;                                   ///< that wrote it
};

/// The parameters that a model's LoRA modules change, and how contradictions about them were
/// settled.
struct ResolvedParameters {
    std::map<std::size_t, LoraParameter> by_module;  ///< by the index of their module
    std::vector<std::string> notes;                  ///< contradictions and how they were settled
};

/// The parameters of modules that have no weight of two dims: these get the rank and the path that
/// PEFT's settings are looked up by. Which dim of a square is the input's, the other factors of the
/// adapter tell by their shapes, else the release that wrote it. Error(unsupported) naming a module
/// of which the factors' shapes fit no parameter, or several, or nothing tells that.
ResolvedParameters resolve_parameters(std::span<Module> modules,
                                      const ParameterSurroundings& surroundings);

/// The fold of one part of a parameter; `a` and `b`: where the factors lie.
plan::Fold fold_of(const Module& module, const LoraParameter& parameter, const ParameterPart& part,
                   Bytes a, Bytes b);

}  // namespace shardweld::adapters

// One name of a PEFT model read: what it is and how it is called without PEFT and in a saved
// adapter. Pure text.
#pragma once

#include <string>

#include "core/index.hpp"

namespace shardweld::adapters {

/// What stands in front of every name that PEFT saves.
inline constexpr const char* kPrefix = "base_model.model.";

enum class TensorRole {
    base,      ///< a tensor PEFT left as it is
    wrapped,   ///< of a module that LoRA wraps (`.base_layer.`)
    original,  ///< of a module trained as a whole, before the training (`.original_module.`)
    whole,     ///< the same, trained (`.modules_to_save.NAME.`)
    saved,     ///< as `base`, but of an adapter that PEFT saved: it replaces the base's
    factor,    ///< of LoRA itself
    foreign,   ///< of another kind of adapter
};

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
};

/// Reads a name as PEFT's modules make them, with or without `base_model.model.` in front.
PeftName read_name(const std::string& stored);

}  // namespace shardweld::adapters

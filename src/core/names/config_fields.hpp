// What HuggingFace's config.json promises, and the names of tensors that keep such a promise:
// tables that writing a model and checking a directory share.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"

namespace shardweld {

/// Where composite models keep what describes their language model.
inline constexpr std::array<std::string_view, 5> kInnerConfigs = {
    "text_config", "llm_config", "language_config", "thinker_config.text_config", "thinker_config"};

/// Whether a part of the name says that the tensor is of a layer for further tokens
/// ("mtp.layers.0.x", "model.mtp_block.0.x"). Some families give them the numbers behind the
/// stack's instead.
bool predicts_further_tokens(std::string_view tensor);

/// The number of the language model's layer that a tensor belongs to; nullopt for all others, such
/// as layers of towers.
std::optional<Index> stack_layer_of(std::string_view tensor);

/// A part of a model beside its language model, which is promised by a field of its own.
struct Tower {
    std::string_view field;                 ///< an object in config.json
    std::string_view name;                  ///< for people
    std::array<std::string_view, 4> words;  ///< one of them is in the name of each tensor
};
inline constexpr std::array kTowers = {
    Tower{"vision_config", "vision tower", {"vis", "vit", "image", "img"}},
    Tower{"audio_config", "audio tower", {"audio", "speech", "wav", "sound"}},
};
bool belongs_to(const Tower& tower, std::string_view tensor);

/// The class that was trained, of the name that a wrapper gave it while it trained
/// ("FSDPQwen2ForCausalLM"): torch's fully_shard, replicate and parametrize make such classes.
/// Other names stay.
std::string trained_class(std::string_view name);

/// Whether this is a class around any model (PeftModelForCausalLM), which does not tell what it
/// held.
bool is_wrapper_class(std::string_view name);

/// The number of the group whose targets name a linear layer best: its own name, else a regular
/// expression ("re:.*mlp.*") that matches from its beginning, else the class Linear. nullopt: none,
/// or several groups equally well. Error(usage) for an expression that cannot be compiled.
std::optional<std::size_t> group_of(std::string_view module,
                                    const std::vector<std::vector<std::string>>& targets);

}  // namespace shardweld

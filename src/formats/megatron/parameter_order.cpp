#include "parameter_order.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace shardweld::formats::megatron {

namespace {

/// Modules of a layer. Attention builds its output projection before what goes into it.
constexpr std::array<std::string_view, 19> kInLayer = {"input_layernorm",
                                                       "self_attention.linear_proj",
                                                       "self_attention.linear_qkv",
                                                       "self_attention.linear_q_proj",
                                                       "self_attention.linear_q_down_proj",
                                                       "self_attention.linear_q_up_proj",
                                                       "self_attention.linear_kv_down_proj",
                                                       "self_attention.linear_kv_up_proj",
                                                       "self_attention.q_layernorm",
                                                       "self_attention.k_layernorm",
                                                       "pre_mlp_layernorm",
                                                       "mlp.router",
                                                       "mlp.experts.experts.linear_fc1",
                                                       "mlp.experts.experts.linear_fc2",
                                                       "mlp.shared_experts",
                                                       "mlp.shared_experts.linear_fc1",
                                                       "mlp.shared_experts.linear_fc2",
                                                       "mlp.linear_fc1",
                                                       "mlp.linear_fc2"};

constexpr std::array<std::string_view, 2> kBefore = {"embedding.word_embeddings",
                                                     "embedding.position_embeddings"};
constexpr std::array<std::string_view, 2> kBehind = {"decoder.final_layernorm", "output_layer"};

/// Parameters of a module; Transformer Engine's linear layers begin with the norm in front of them.
constexpr std::array<std::string_view, 5> kLeaves = {"layer_norm_weight", "layer_norm_bias",
                                                     "weight", "bias", "gate_weight"};

std::optional<Index> index_in(std::span<const std::string_view> all, std::string_view one) {
    const auto at = std::ranges::find(all, one);
    return at == all.end() ? std::nullopt : std::optional(static_cast<Index>(at - all.begin()));
}

/// The place of a name in a list of modules.
std::optional<Index> place_in(std::span<const std::string_view> modules, std::string_view name) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) {
        return std::nullopt;
    }
    const auto module = index_in(modules, name.substr(0, dot));
    const auto leaf = index_in(kLeaves, name.substr(dot + 1));
    return module && leaf ? std::optional(*module * static_cast<Index>(kLeaves.size()) + *leaf)
                          : std::nullopt;
}

}  // namespace

std::optional<Index> place_in_layer(std::string_view name) {
    return place_in(kInLayer, name);
}

std::optional<Index> place_around_layers(std::string_view name) {
    if (const auto before = place_in(kBefore, name)) {
        return *before - static_cast<Index>(kBefore.size() * kLeaves.size());
    }
    return place_in(kBehind, name);
}

bool is_buffer(std::string_view name) {
    constexpr std::array<std::string_view, 3> kBuffers = {"expert_bias", "inv_freq",
                                                          "local_tokens_per_expert"};
    return index_in(kBuffers, name.substr(name.rfind('.') + 1)).has_value();
}

}  // namespace shardweld::formats::megatron

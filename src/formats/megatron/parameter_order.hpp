// The order in which a model's modules were built, which is that of named_parameters(): an
// optimizer's buffers tell no names. Sources: megatron-core 0.12.2, 0.16.1 and 0.19.2
// megatron/core/models/gpt/{gpt_model,gpt_layer_specs}.py, transformer/{attention,
// multi_latent_attention,transformer_layer,mlp}.py, transformer/moe/{moe_layer,experts,
// shared_experts}.py; transformer-engine's layernorm_linear.py.
#pragma once

#include <optional>
#include <string_view>

#include "core/index.hpp"

namespace shardweld::formats::megatron {

/// Where a tensor stands among the parameters of one layer, by its name behind the layer's number
/// ("mlp.linear_fc1.weight", of stacked experts "mlp.experts.experts.linear_fc1.weight").
/// nullopt: no order is known for it, or it is no parameter.
std::optional<Index> place_in_layer(std::string_view name);

/// Where a tensor stands that is in no layer; negative: in front of them. nullopt as for one in a
/// layer.
std::optional<Index> place_around_layers(std::string_view name);

/// Whether a module keeps it without training it, so that no optimizer has it.
bool is_buffer(std::string_view name);

}  // namespace shardweld::formats::megatron

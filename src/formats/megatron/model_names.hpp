// Names of model tensors as the dialect has them, without what wrappers put around. The wrappers
// are those of Megatron and Megatron-Bridge.
// Sources: megatron-core 0.16.1 megatron/core/distributed, megatron/core/transformer/module.py;
// megatron-bridge 0.3.1 megatron/bridge/peft/adapter_wrapper.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalogue/tensor.hpp"

namespace shardweld::formats::megatron {

/// The name without leading `model.` and `module.` and without the component `to_wrap` (the layer
/// that an adapter wraps), and as without_peft: "module.decoder.x.to_wrap.weight" is
/// "decoder.x.weight".
std::string model_name(std::string_view key);

/// Whether a text, such as a key or the keys of an index, holds a name that only megatron-core
/// gives.
bool holds_megatron_name(std::string_view text);

/// Sorts by name. Error(corrupt) when two have one name, which they had not with their wrappers.
void sort_tensors(std::vector<catalogue::Tensor>& tensors);

}  // namespace shardweld::formats::megatron

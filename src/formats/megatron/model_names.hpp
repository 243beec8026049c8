// Names of model tensors as the dialect has them, without what wrappers put around; and LoRA
// factors that Megatron-Bridge and ms-swift keep beside the weights: their rank, and how they were
// cut. The wrappers are those of Megatron and Megatron-Bridge. Sources: megatron-core 0.16.1
// megatron/core/distributed, megatron/core/transformer/module.py; megatron-bridge 0.3.1
// megatron/bridge/peft/{adapter_wrapper,lora,canonical_lora,utils}.py, mcore-bridge (ms-swift's)
// src/mcore_bridge/tuners/{lora,utils}.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/catalogue_words.hpp"

namespace shardweld::formats::megatron {

/// A name as PEFT's modules around Megatron's make it, in Megatron-Bridge's spelling:
/// "X.lora_A.default.weight" is "X.adapter.linear_in.weight", "X.base_layer.weight" is "X.weight";
/// what else is PEFT's gets ".adapter" in front. Others stay.
std::string without_peft(std::string name);

/// Whether a tensor is an adapter's, of whatever kind.
bool is_of_adapter(std::string_view name);

/// Gives the facts `lora_rank` where an adapter is (0: it has several ranks, or none is known),
/// `lora_only` where nothing else is, and `lora_rows_by_rank` where B of [gate; up] has rows of
/// gate and up by tensor-parallel ranks.
void note_adapter(Catalogue& out);

/// Canonical factors B of gate and up in torch_dist: the writer takes each rank's rows for a fused
/// [gate; up] and stores the first halves of all ranks before the second halves. Puts the pieces
/// where their rows belong. Error(unsupported) when the pieces are not those halves.
void undo_halves(Tensor& tensor);

/// The name without leading `model.` and `module.` and without the component `to_wrap` (the layer
/// that an adapter wraps), and as without_peft: "module.decoder.x.to_wrap.weight" is
/// "decoder.x.weight".
std::string model_name(std::string_view key);

/// Whether a text, such as a key or the keys of an index, holds a name that only megatron-core
/// gives.
bool holds_megatron_name(std::string_view text);

/// Sorts by name. Error(corrupt) when two have one name, which they had not with their wrappers.
void sort_tensors(std::vector<Tensor>& tensors);

}  // namespace shardweld::formats::megatron

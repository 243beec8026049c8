// LoRA factors that Megatron-Bridge keeps beside the weights: their rank, and how they were cut.
// Knows their names; what they belong to is the dialect's.
// Source: megatron-bridge 0.3.1 megatron/bridge/peft/{lora,canonical_lora,utils}.py.
#pragma once

#include <string_view>

namespace shardweld::catalogue {
struct Catalogue;
struct Tensor;
}  // namespace shardweld::catalogue

namespace shardweld::formats::megatron {

/// Whether a tensor is a factor. Error(unsupported) for one that is no plain LoRA's, and for those
/// of experts.
bool is_factor(std::string_view name);

/// Gives the facts `lora_rank` where factors are, and `lora_only` where nothing else is.
/// Error(unsupported) when ranks differ, Error(mismatch) when nothing tells them.
void note_adapter(catalogue::Catalogue& out);

/// Canonical factors B of gate and up in torch_dist: the writer takes each rank's rows for a fused
/// [gate; up] and stores the first halves of all ranks before the second halves. Puts the pieces
/// where their rows belong. Error(unsupported) when the pieces are not those halves.
void undo_halves(catalogue::Tensor& tensor);

}  // namespace shardweld::formats::megatron

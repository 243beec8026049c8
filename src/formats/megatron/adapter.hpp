// LoRA factors that Megatron-Bridge and ms-swift keep beside the weights: their rank, and how they
// were cut.
// Sources: megatron-bridge 0.3.1 megatron/bridge/peft/{lora,canonical_lora,utils}.py, mcore-bridge
// (ms-swift's) src/mcore_bridge/tuners/{lora,utils}.py.
#pragma once

#include <string>
#include <string_view>

namespace shardweld::catalogue {
struct Catalogue;
struct Tensor;
}  // namespace shardweld::catalogue

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
void note_adapter(catalogue::Catalogue& out);

/// Canonical factors B of gate and up in torch_dist: the writer takes each rank's rows for a fused
/// [gate; up] and stores the first halves of all ranks before the second halves. Puts the pieces
/// where their rows belong. Error(unsupported) when the pieces are not those halves.
void undo_halves(catalogue::Tensor& tensor);

}  // namespace shardweld::formats::megatron

// Names of parameters as the module tree has them, without the wrappers that training puts around.
// Knows the wrappers' spellings; nothing of models.
// Sources: torch 2.15 torch/_dynamo/eval_frame.py (OptimizedModule),
// torch/distributed/algorithms/_checkpoint/checkpoint_wrapper.py,
// torch/distributed/fsdp/_common_utils.py; lightning 2.6 fabric/wrappers.py (_forward_module).
#pragma once

#include <string>
#include <string_view>

namespace shardweld::formats {

/// `name` without the components `_orig_mod`, `_checkpoint_wrapped_module`, `_fsdp_wrapped_module`
/// and `_forward_module` anywhere and without leading `module.` (data parallel) and
/// `pretrained_model.` (trl's models with a value head).
std::string without_wrappers(std::string_view name);

/// "layers.*.x" for "layers.12.x": one row of the report for all layers.
std::string pattern_of(std::string_view name);

/// Whether the name is one of FSDP1's flat parameters: "flat_param", "layers.0._flat_param".
bool is_flat_parameter(std::string_view name);
/// Error(unsupported): `what` says where it is found.
[[noreturn]] void refuse_flat_parameter(const std::string& what, const std::string& hint);

/// Whether the name is one of Transformer Engine's states, which are no weights.
bool is_extra_state(std::string_view name);

}  // namespace shardweld::formats

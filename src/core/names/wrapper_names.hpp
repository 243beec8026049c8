// Names that training puts around a model's modules: the one list of them. Sources: torch 2.15
// torch/_dynamo/eval_frame.py (OptimizedModule),
// torch/distributed/algorithms/_checkpoint/checkpoint_wrapper.py,
// torch/distributed/fsdp/_common_utils.py; fairscale 0.4 nn/misc/flatten_params_wrapper.py
// (_fpw_module); lightning 2.6 fabric/wrappers.py (_forward_module); trl 0.26
// models/modeling_base.py (pretrained_model).
#pragma once

#include <array>
#include <string_view>

namespace shardweld {

/// Anywhere in a name: these begin with an underscore, as no module of a model does.
inline constexpr std::array<std::string_view, 5> kWrappers = {
    "_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_fpw_module",
    "_forward_module"};
/// In front of all others only: models may have modules of these names.
inline constexpr std::array<std::string_view, 5> kLeadingWrappers = {
    "module", "pretrained_model", "state_dict", "model_state_dict", "model_state"};

}  // namespace shardweld

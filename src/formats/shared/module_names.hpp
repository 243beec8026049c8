// Names of parameters as the module tree has them, below the prefix that was asked for and without
// the wrappers that training puts around modules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/catalogue_words.hpp"

namespace shardweld::formats {

/// What PEFT puts in front of every name of the model that it wraps. It stays: only with it names
/// tell which adapter they belong to.
inline constexpr std::string_view kOfPeft = "base_model.model.";

/// `name` without the components `_orig_mod`, `_checkpoint_wrapped_module`, `_fsdp_wrapped_module`,
/// `_fpw_module` and `_forward_module` anywhere; without leading `module.` (data parallel,
/// DeepSpeed's engine), `0.auto_model.` (sentence-transformers' first module), `pretrained_model.`
/// (trl's and verl's models with a value head) and `state_dict.`, `model_state_dict.`,
/// `model_state.` (roots of state dicts), also behind PEFT's prefix; with that prefix once where
/// PEFT wraps PEFT's model.
std::string without_wrappers(std::string_view name);

/// "layers.*.x" for "layers.12.x": one row of the report for all layers.
std::string pattern_of(std::string_view name);

/// Whether the name is one of FSDP1's flat parameters: "flat_param", "layers.0._flat_param".
bool is_flat_parameter(std::string_view name);
/// Error(unsupported): `what` says where it is found.
[[noreturn]] void refuse_flat_parameter(const std::string& what, const std::string& hint);

/// Whether the name is one of Transformer Engine's states, which are no weights.
bool is_extra_state(std::string_view name);

/// Parts the keys of nested dictionaries in a name (ASCII's unit separator: keys hold dots
/// themselves).
inline constexpr char kKeySeparator = '\x1f';

/// The path as people write it: "model.layers.0.weight".
std::string dotted(std::string_view path);

/// Keeps those tensors and shards of all catalogues whose names, with or without wrappers, lie
/// below the prefix, and strips it; counts the others as ignored. Separators become dots.
/// Error(not_found) listing what there is where nothing lies below it.
void keep_below(std::string_view prefix, const std::vector<Catalogue*>& catalogues);

/// Gives tensors and shards their names without wrappers and without what all of them have in front
/// of PEFT's prefix, with a note on that, and sorts the tensors. Doing so again changes nothing.
/// Error(mismatch) naming both where two become one, or where only some have the same in front of
/// PEFT's prefix.
void remove_wrappers(Catalogue& catalogue);

}  // namespace shardweld::formats

// Which part of a saved state dict is the model.
// Knows how trainers name what they save beside it; nothing of how tensors are stored.
// Sources: torch 2.15 torch/distributed/checkpoint/default_planner.py, _nested_dict.py; the state
// dicts of torchtitan, accelerate, lightning and torch's own examples.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::formats::dcp {

// Until select_model, a tensor's name is its path through the nested dictionaries.

/// The components as one text, which select_model takes apart.
std::string path_name(const std::vector<std::string>& components);
/// The path as people write it: "model.layers.0.weight".
std::string dotted(std::string_view path);

/// Pattern and reason under which a path is left aside as state of optimizers, schedulers, data
/// loaders, random generators...; nullopt for all others.
std::optional<std::pair<std::string, std::string>> training_state(std::string_view path);

/// Keeps the model's tensors under their names in the module tree, sorted, without wrappers
/// (module_names.hpp), and counts the others as ignored. The model is what lies below `prefix`; ""
/// is the one dictionary whose keys are names of a module tree. Error(usage) listing them when
/// there are several, Error(not_found) listing what there is when there is none,
/// Error(mismatch) when two tensors end up with one name. Adds a note on what was chosen.
void select_model(const std::string& prefix, catalogue::Catalogue& catalogue);

}  // namespace shardweld::formats::dcp

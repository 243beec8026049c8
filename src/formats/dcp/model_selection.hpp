// Which part of a saved state dict is the model.
// Sources: torch 2.15 torch/distributed/checkpoint/default_planner.py, _nested_dict.py; the state
// dicts of torchtitan, accelerate, lightning and torch's own examples.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/shared/file_scan.hpp"

namespace shardweld::formats::dcp {

// Until select_model, a tensor's name is its path through the nested dictionaries.

/// The components as one text, which select_model takes apart.
std::string path_name(const std::vector<std::string>& components);

/// Pattern and reason under which a path is left aside as state of optimizers, schedulers, data
/// loaders, random generators...; nullopt for all others. A plain name is state only where no
/// module is called as its first component is, or where it is not called as a weight.
std::optional<RowName> training_state(std::string_view path);
/// Pattern and reason for a tensor: nullopt also where it is in a dictionary that has the name of a
/// module, or in none and called as a weight is, so that select_model decides; a single number that
/// trainers count or measure is their state wherever it is.
std::optional<RowName> training_state(std::string_view path, const DcpTensor& tensor);

/// The dictionaries in which a model's weights lie, by their tensors.
class WeightHolders {
  public:
    void add(std::string_view path);
    /// What an object of this path is called within the model; nullopt when it stands elsewhere.
    [[nodiscard]] std::optional<std::string> name_of(std::string_view path) const;
    /// Whether a tensor is called so in its dictionary.
    [[nodiscard]] bool has(std::string_view name) const { return names_.contains(name); }

  private:
    std::set<std::string, std::less<>> trees_;    // keys are names in a module tree
    std::set<std::string, std::less<>> modules_;  // keys are a module's parameters
    std::set<std::string, std::less<>> names_;
};

/// Keeps the model's tensors under their names in the module tree, sorted, without wrappers
/// (module_names.hpp), and counts the others as ignored. The model is the one dictionary whose
/// keys are names of a module tree. Error(usage) listing them when there are several,
/// Error(not_found) when there is none, Error(unsupported) naming a tensor of another dictionary
/// that is a part of the model (model_values.hpp). Adds a note on what was chosen.
void select_model(Catalogue& catalogue);

/// Tells the dialect of a trainer whose models have names of their own.
void note_trainer(Catalogue& out);

}  // namespace shardweld::formats::dcp

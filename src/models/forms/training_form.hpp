// A family's model in the names and layouts in which a framework stores it: what is read, the other
// way round.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/recipe.hpp"
#include "models/symbols.hpp"

namespace shardweld::models {

/// How a framework's names are chosen where several are read.
struct TrainingNames {
    bool is_te = true;                  ///< Transformer Engine's names, which fuse norms
    bool is_torch_dist = false;         ///< tensors of the whole model, not of ranks
    bool are_experts_grouped = true;    ///< legacy: linear_fc1.weight{e}, not local_experts.{e}
    bool is_newest = false;             ///< legacy: what megatron-core 0.17 and later renamed
    std::set<std::string> stacks = {};  ///< captures that are an axis instead, see like_layers
    /// Where an existing checkpoint says which of the form's lines are written: these, each with
    /// so many rows of padding for its '*'. Nothing else of the names is chosen then.
    std::optional<std::map<const Line*, Index>> lines = {};
};

/// The recipe with the lines of `form` that are written as its hub lines. A line's condition says
/// when the model has the tensor, too; an extent '*' has become that of the framework's padding, a
/// segment that the model does not have and that `drop` names. `add` is the way back from the hub's
/// values; with a dialect of the recipe's own names (hf_module), whose lines are those of the
/// module tree, the hub's own. A tied tensor's copy is a second line of the tensor itself there.
/// Error(unsupported) naming the family and a logical tensor that no line is written for.
Recipe training_form(const Recipe& recipe, const Dialect& form, const TrainingNames& names);

/// The captures that can be an axis: all their values have tensors of the same shapes, and no
/// `separate` of the form holds. `training` is made without stacks.
std::set<std::string> like_layers(const Recipe& training, const Dialect& form,
                                  const Symbols& symbols);

/// A flag of lines for towers that module trees have in another form than the hub. Frameworks with
/// names of their own have the hub's, which pass without lines where all is in that form.
inline constexpr const char* kTowers = "towers";

/// The hub's lines of such towers, with the names that they have beside the dialect's.
std::vector<Line> tower_lines(const Recipe& recipe, const Dialect& dialect);

/// What the framework calls a tensor that passes (`pass`), such as those of a tower.
std::string passing_name(const Recipe& training, const Dialect& form, const std::string& hub_name);

/// Error(unsupported) naming the family and a tensor that this model would need to have written
/// with elements that it does not have: segments that are dropped when read, other than padding.
void require_reversible(const Recipe& training, const Symbols& symbols);

}  // namespace shardweld::models

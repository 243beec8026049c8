// The names and layouts of a training checkpoint (--to) for a model that is prepared.
#pragma once

#include <optional>
#include <string>

#include "models/recipe.hpp"

#include "model.hpp"

namespace shardweld::app {

/// Gives a prepared model the form that `--to` calls `text`: `training`, with the family's recipe
/// in it and the dialect of the checkpoint that is read. `labels`: rows of a value head that is
/// stored. `padded_vocab`: rows of a vocabulary that stays filled up as it is, for they have states
/// of an optimizer. Error(unsupported) for a family that has no names there, and what
/// `models::training_form` and `models::require_reversible` refuse.
void take_training_form(const std::string& text, const models::RecipeLibrary& library,
                        std::optional<Index> labels, std::optional<Index> padded_vocab,
                        HeldModel& prepared);

}  // namespace shardweld::app

// Which families' names of a framework its own checkpoints have shown.
#pragma once

#include "models/recipe.hpp"

namespace shardweld::app {

/// Whether files of any format with the dialect's names checked the recipe.
bool is_shown(const models::Recipe& recipe, const models::Dialect& dialect);

/// Error(unsupported) naming the family where a checkpoint that is written would have guessed
/// names: no recipe has the family's in the dialect, or no file has shown those that one has. The
/// model's own names are nobody's guess.
void require_shown(const models::RecipeLibrary& library, const models::Recipe& recipe,
                   const models::Dialect& dialect);

}  // namespace shardweld::app

// Recipes held against a finished model: is it what they make, and if no family makes it, the text
// of a recipe to begin with.
#pragma once

#include <iosfwd>

#include "app/settings/options.hpp"
#include "models/recipe.hpp"

namespace shardweld::app {

/// Prints a recipe that extends the nearest family of the model of --ref: lines that are new, lines
/// to leave out, and as comments what could not be placed. Error(usage) without --ref.
int suggest_recipe(const models::RecipeLibrary& library, const Options& options, std::ostream& out);

/// Prints what the recipe makes otherwise than the model of --ref has it. Error(differs) where it
/// does; Error(usage) without --ref.
int check_recipe(const models::RecipeLibrary& library, const Options& options, std::ostream& out);

}  // namespace shardweld::app

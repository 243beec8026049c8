// `shardweld recipes suggest`: a recipe for a family that has none, made from the names and shapes
// of a finished model. Knows recipes and names; reads metadata only.
#pragma once

#include <iosfwd>

#include "app/settings/options.hpp"
#include "models/recipe.hpp"

namespace shardweld::app {

/// Prints a recipe that extends the nearest family: lines that are new, lines to leave out, and as
/// comments what could not be placed. Error(usage) without --ref.
int suggest_recipe(const models::RecipeLibrary& library, const Options& options, std::ostream& out);

}  // namespace shardweld::app

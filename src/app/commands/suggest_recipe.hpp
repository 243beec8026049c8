// Recipes for models that have none: the nearest family, judged by what is stored, and the text of
// a recipe to begin with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "app/settings/options.hpp"
#include "formats/format.hpp"
#include "models/config.hpp"
#include "models/hub_tensors.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"

namespace shardweld::app {

using Shapes = std::map<std::string, std::vector<Index>>;

/// A finished model, or what a checkpoint stores: names, shapes, whose names they are.
struct NamedShapes {
    Shapes shapes;
    std::string dialect;
};

/// The model of --ref. Error(usage) without it.
NamedShapes read_reference(const Options& options);

/// The config.json of --ref.
models::Config reference_config(const Options& options);

/// What a recipe's symbols are worth in a module tree.
models::Symbols tree_symbols(const models::RecipeLibrary& library, const models::Recipe& recipe,
                             const models::Config& config);

/// Prints a recipe that extends the nearest family: lines that are new, lines to leave out, and as
/// comments what could not be placed. Error(usage) without --ref.
int suggest_recipe(const models::RecipeLibrary& library, const Options& options, std::ostream& out);

}  // namespace shardweld::app

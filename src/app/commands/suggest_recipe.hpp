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

NamedShapes read_shapes(const Options& options, formats::InputRequest request);
/// The model of --ref. Error(usage) without it.
NamedShapes read_reference(const Options& options);
/// The config.json of --ref.
models::Config reference_config(const Options& options);
/// What a recipe's symbols are worth in a module tree.
models::Symbols tree_symbols(const models::RecipeLibrary& library, const models::Recipe& recipe,
                             const models::Config& config);

struct Nearest {
    const models::Recipe* recipe = nullptr;  ///< nullptr: no family makes any tensor of the model
    std::vector<models::HubTensor> made;
    Index n_equal = 0;
    Index score = 0;
};
Nearest nearest_family(const models::RecipeLibrary& library, const models::Config& config,
                       const Shapes& reference);

/// What of the model the nearest family does not make, and the other way round.
struct Differences {
    Shapes unplaced;                             ///< only the model has it, or otherwise
    std::map<const models::Line*, bool> absent;  ///< lines: whether the model has nothing of them
    std::vector<std::string> shapes;             ///< texts
};
Differences differences_of(const std::vector<models::HubTensor>& made, const Shapes& reference);

/// Tensors whose names differ in numbers only.
struct Group {
    std::vector<Index> ends;                           ///< of each number, largest + 1
    std::map<std::vector<Index>, std::size_t> shapes;  ///< how many have each

    /// The shape that most of them have, and how many do.
    [[nodiscard]] const auto& usual() const {
        return *std::ranges::max_element(shapes, {}, [](const auto& one) { return one.second; });
    }
};
using Groups = std::map<std::vector<std::string>, Group>;  ///< by the texts between numbers
Groups grouped(const Shapes& tensors);

/// Prints a recipe that extends the nearest family: lines that are new, lines to leave out, and as
/// comments what could not be placed. Error(usage) without --ref.
int suggest_recipe(const models::RecipeLibrary& library, const Options& options, std::ostream& out);

}  // namespace shardweld::app

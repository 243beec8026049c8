// Recipes that scripts/generate-recipes.py made of transformers' own classes, for model types that
// no one wrote one for, and what it proved.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/recipe.hpp"

namespace shardweld::models {

/// The recipe of a model type; nullopt: there is none.
std::optional<RecipeFile> generated_source(std::string_view model_type);

/// A model type that was tried.
struct TriedType {
    std::string name;
    bool is_plain = false;  ///< saved as its module tree has it
    std::string refused;    ///< why it has no recipe; "": it has one
};
const std::vector<TriedType>& tried_types();

/// Why a model type has no recipe, and nothing says that it needs none; "": it has one, or was not
/// tried.
std::string refusal_of(std::string_view model_type);

}  // namespace shardweld::models

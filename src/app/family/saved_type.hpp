// Which type of model this is to transformers where no recipe knows it, or not all of it, and which
// of its tensors transformers saves under other names.
#pragma once

#include <string>
#include <vector>

#include "models/config.hpp"
#include "models/recipe.hpp"
#include "models/saved_form.hpp"
#include "plan/binding.hpp"

namespace shardweld {
class Error;
}  // namespace shardweld

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// The model type of config.json, or else of a class in `architectures`, that transformers knows.
std::string known_type(const models::Config& config);

std::vector<std::string> stored_names_in(const catalogue::Catalogue& catalogue);

/// Error(unsupported) listing those of `names` that pass although transformers saves them
/// otherwise. Of a family with a recipe only what parts inside of it have counts. `recipe`: the one
/// that lets them pass.
void require_saved_names(const models::Config& config, const models::Recipe& recipe,
                         const models::SavedModel& saved, bool has_recipe,
                         const std::vector<std::string>& names);

/// What is to be said of a family without a recipe: warnings. False where config.json names no
/// family. Error(unsupported) where it names none but `architectures` does, and that one is saved
/// otherwise than the checkpoint has it. `recipe`: as above; `is_written`: as a model, not as a
/// training checkpoint.
bool accept_without_recipe(const models::RecipeLibrary& library, const Error& no_recipe,
                           const catalogue::Catalogue& catalogue, const models::Config& config,
                           const models::Recipe& recipe, bool is_written,
                           std::vector<Warning>& warnings);

}  // namespace shardweld::app

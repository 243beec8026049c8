// Which type of model this is to transformers where no recipe knows it, or not all of it, and which
// of its tensors transformers saves under other names.
#pragma once

#include <string>
#include <vector>

#include "app/messages/warnings.hpp"
#include "models/config.hpp"
#include "models/forms/saved_form.hpp"
#include "models/recipe.hpp"
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

/// What is to be said of types in config.json that transformers does not know. Error(unsupported)
/// where a newer one than the lists are of wrote it, which may save tensors otherwise.
void judge_unknown_types(const models::Config& config, bool has_saved_names, Warnings& warnings);

/// What is to be said of a family without a recipe: warnings. False where config.json names no
/// family. Error(unsupported) where its type was tried and could not be proved, or where it names
/// none but `architectures` does, and that one is saved otherwise than the checkpoint has it.
/// `recipe`: as above; `has_saved_names`: what is written, or read, has the names of a saved model,
/// and not of training checkpoints alone.
bool accept_without_recipe(const models::RecipeLibrary& library, const Error& no_recipe,
                           const catalogue::Catalogue& catalogue, const models::Config& config,
                           const models::Recipe& recipe, bool has_saved_names, Warnings& warnings);

}  // namespace shardweld::app

// Models without a language model's head: bare base models, and those with another head. In their
// names the base has another prefix than a recipe says, or none.
// Knows stored names and a recipe; nothing of config.json.
#pragma once

#include <optional>
#include <string>

#include "models/recipe.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// How the names of the base begin: in a recipe's lines, and in the checkpoint.
struct BasePrefix {
    std::string of_recipe;  ///< "model."
    std::string stored;     ///< "" in LlamaModel, "transformer." in LlamaForQuestionAnswering
};

/// Found by where the embedding stands. nullopt where it stands as the recipe says, or nowhere, or
/// behind a prefix that no such class has.
std::optional<BasePrefix> find_base_prefix(const catalogue::Catalogue& catalogue,
                                           const models::Recipe& recipe);

/// Whether a tensor of the language model's head is stored.
bool has_language_head(const catalogue::Catalogue& catalogue, const models::Recipe& recipe);

/// The recipe with the base's names as they are stored.
models::Recipe with_base_prefix(models::Recipe recipe, const BasePrefix& prefix);

/// The recipe without lines for the language model's head.
models::Recipe without_language_head(models::Recipe recipe);

}  // namespace shardweld::app

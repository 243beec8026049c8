// What the stored tensors tell of a model themselves: how the names of the base begin, what modules
// around the model and other classes of the family put in front of them, which head there is, and
// whether the files of all ranks are there.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/config.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// How the names of the base, or of a language model, begin: in a recipe's lines, and in the
/// checkpoint.
struct BasePrefix {
    std::string of_recipe;  ///< "model."
    std::string stored;     ///< "" in LlamaModel, "transformer." in LlamaForQuestionAnswering
};

/// "a.b.c.weight" as "a.b." and "c.weight".
std::pair<std::string, std::string> split_name(const std::string& name);

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

/// What stored tensors tell of a classification head.
struct ScoreHead {
    std::optional<Index> rows;  ///< nullopt: config.json is to tell
    std::string evidence;       ///< of a head in the language model's place; "" if there is none
};

/// Module trees have a name of its own for the head. Frameworks have one name for either, in the
/// line of `dialect` for "score": there a single row is no vocabulary, so it is a value head.
ScoreHead find_score_head(const catalogue::Catalogue& catalogue, const models::Dialect& dialect);

/// For tensors that no recipe gives a shape: Error(unsupported), naming one and the last file it is
/// in, when shapes are only reached (formats::kShardRanks) and nothing proves that no rank's file
/// is missing. A tensor proves it that is cut among all ranks found, could not be among more, and
/// is known to be whole: its last part is shorter than the others, or it has the vocabulary's rows.
void require_all_ranks(const models::Config& config, const catalogue::Catalogue& catalogue);

/// Renames where it is certain what is meant: all names begin with something ("policy.net.") behind
/// which they are the family's; or those of the language model lack the name that the parts of a
/// larger model give it ("model.layers." for "model.language_model.layers."), and other parts are
/// there. Notes on what was renamed.
std::vector<std::string> take_family_names(const models::Recipe& recipe,
                                           catalogue::Catalogue& catalogue);

/// Whether the checkpoint holds the language model of a larger family alone, under names of its
/// own, where the family's say of which part they are.
bool is_text_part(const models::Recipe& recipe, const catalogue::Catalogue& catalogue);

/// Error(mismatch) naming both, where the embedding is stored under another name than the family's:
/// its prefix differs.
void require_family_names(const models::Recipe& recipe, const models::Symbols& symbols,
                          const models::Config& config, const catalogue::Catalogue& catalogue);

}  // namespace shardweld::app

// Whether stored tensors are those of a model that classifies tokens (a value model).
// Knows what the heads are called and their shapes; nothing of config.json.
#pragma once

#include <optional>
#include <string>

#include "models/recipe.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// What stored tensors tell of a classification head.
struct ScoreHead {
    std::optional<Index> rows;  ///< nullopt: config.json is to tell
    std::string evidence;       ///< of a head in the language model's place; "" if there is none
};

/// Module trees have a name of its own for the head. Frameworks have one name for either, in the
/// line of `dialect` for "score": there a single row is no vocabulary, so it is a value head.
ScoreHead find_score_head(const catalogue::Catalogue& catalogue, const models::Dialect& dialect);

}  // namespace shardweld::app

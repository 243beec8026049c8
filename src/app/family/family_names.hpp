// A checkpoint's names held against a family's: what modules around the model and other classes of
// the family put in front of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/config.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

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

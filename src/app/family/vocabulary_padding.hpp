// Rows that a framework fills the vocabulary up with: what may be cut off as such, and what must
// not. Pure; knows the vocabulary's field of config.json; the rule by which rows are made is the
// dialect's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/config.hpp"
#include "models/recipe.hpp"
#include "plan/binding.hpp"

#include "tokenizer_tokens.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

inline constexpr const char* kVocabularyField = "vocab_size";

/// --vocab_size N: config.json says N wherever it says the size.
void set_vocabulary(models::Config& config, Index size);

/// The catalogue's facts, and those the dialect asks for that the checkpoint states (whole numbers
/// among its claims).
std::map<std::string, Index> known_facts(const catalogue::Catalogue& catalogue,
                                         const models::Dialect& dialect);

/// Error(mismatch) where more rows would be cut off than the framework adds, or the tokenizer has
/// tokens for them.
void require_only_padding(const std::vector<plan::Padding>& padding,
                          const std::optional<TokenizerTokens>& tokens);

/// One line for people on what is cut off; none where nothing is.
std::vector<std::string> padding_notes(const std::vector<plan::Padding>& padding);

}  // namespace shardweld::app

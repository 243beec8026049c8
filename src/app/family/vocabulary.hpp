// The tokens of a tokenizer, and the rows of a vocabulary: what a framework has added to fill them
// up is told by the tokens that there are.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "models/config.hpp"
#include "models/recipe.hpp"
#include "plan/binding.hpp"
#include "publish/assets.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// How many tokens the tokenizer beside config.json has: rows that no trimming may cut off.
struct TokenizerTokens {
    Index count = 0;   ///< the largest number of a token, and one
    std::string file;  ///< that holds it
};

/// The tokens in tokenizer.json, vocab.json, added_tokens.json and tokenizer_config.json among the
/// side files, as they will be written; nullopt where none names a token (sentencepiece's own files
/// are not read). A file that is no JSON, too large to be a tokenizer, or that this user may not
/// read, names none. Error(io) when one changes meanwhile.
std::optional<TokenizerTokens> tokenizer_tokens(const std::vector<publish::Asset>& assets);

inline constexpr const char* kVocabularyField = "vocab_size";

/// --vocab_size N: config.json says N wherever it says the size.
void set_vocabulary(models::Config& config, Index size);
/// The fields that it sets, each with the option's name.
std::map<std::string, std::string> fields_of_vocabulary();

/// The catalogue's facts, and those the dialect asks for that the checkpoint states (whole numbers
/// among its claims).
std::map<std::string, Index> known_facts(const catalogue::Catalogue& catalogue,
                                         const models::Dialect& dialect);

/// Error(mismatch) where more rows would be cut off than the framework adds, all would be, or the
/// tokenizer has tokens for them.
void require_only_padding(const std::vector<plan::Padding>& padding,
                          const std::optional<TokenizerTokens>& tokens);

/// One line for people on what is cut off; none where nothing is.
std::vector<std::string> padding_notes(const std::vector<plan::Padding>& padding);

/// Rows of the embedding in a Megatron checkpoint, padding included; nullopt for others.
std::optional<Index> embedding_rows(const catalogue::Catalogue& catalogue);

}  // namespace shardweld::app

// How many tokens the tokenizer beside config.json has: rows that no trimming may cut off.
// Knows transformers' tokenizer files; nothing of models.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "shardweld/core/index.hpp"

namespace shardweld::app {

namespace fs = std::filesystem;

struct TokenizerTokens {
    Index count = 0;   ///< the largest number of a token, and one
    std::string file;  ///< that holds it
};

/// Of tokenizer.json, vocab.json, added_tokens.json and tokenizer_config.json in `directory`;
/// nullopt where none names a token (sentencepiece's own files are not read). A file that is no
/// JSON, or too large to be a tokenizer, names none: it is copied, not used.
std::optional<TokenizerTokens> tokenizer_tokens(const fs::path& directory);

}  // namespace shardweld::app

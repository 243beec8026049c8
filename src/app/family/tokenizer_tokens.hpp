// How many tokens the tokenizer beside config.json has: rows that no trimming may cut off.
// Knows transformers' tokenizer files; nothing of models.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/index.hpp"
#include "publish/assets.hpp"

namespace shardweld::app {

struct TokenizerTokens {
    Index count = 0;   ///< the largest number of a token, and one
    std::string file;  ///< that holds it

    static constexpr auto fields = [](auto& self) { return std::tie(self.count, self.file); };
};

/// Of tokenizer.json, vocab.json, added_tokens.json and tokenizer_config.json among the side files,
/// as they will be written; nullopt where none names a token (sentencepiece's own files are not
/// read). A file that is no JSON, too large to be a tokenizer, or that this user may not read,
/// names none. Error(io) when one changes meanwhile.
std::optional<TokenizerTokens> tokenizer_tokens(const std::vector<publish::Asset>& assets);

struct EndToken {
    std::string text;  ///< "" where no file names one
    std::optional<Index> number;
};

/// Of tokenizer_config.json and tokenizer.json, "" for a file that is not there.
EndToken end_token(const std::string& config, const std::string& words);

}  // namespace shardweld::app

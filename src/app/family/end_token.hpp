// The token with which a tokenizer says that texts end. Knows transformers' tokenizer files.
#pragma once

#include <optional>
#include <string>

#include "core/index.hpp"

namespace shardweld::app {

struct EndToken {
    std::string text;  ///< "" where no file names one
    std::optional<Index> number;
};

/// Of tokenizer_config.json and tokenizer.json, "" for a file that is not there.
EndToken end_token(const std::string& config, const std::string& words);

}  // namespace shardweld::app

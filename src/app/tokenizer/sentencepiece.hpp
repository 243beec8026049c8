// SentencePiece's tokenizer.model. Source: sentencepiece_model.proto of sentencepiece 0.2.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardweld::app {

struct Piece {
    std::string text;
    float score = 0;
    int type = 1;  ///< as GGUF's: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
};

/// By number. nullopt when the text is no such file or has no pieces.
std::optional<std::vector<Piece>> parse_pieces(std::string_view text);

}  // namespace shardweld::app

// What a GGUF file says of the tokenizer beside config.json, as llama.cpp's convert_hf_to_gguf
// writes it; and the pieces of SentencePiece's file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/metadata.hpp"
#include "publish/assets.hpp"

namespace shardweld::app {

/// The keys of a GGUF file that are about the tokenizer.
struct GgufTokenizer {
    Metadata keys;                      ///< none where there is no tokenizer that llama.cpp reads
    std::vector<std::string> warnings;  ///< what is missing, and what may be read otherwise
};

/// From tokenizer.json (byte-level BPE; BPE with tokens for bytes), tokenizer.model
/// (SentencePiece), tokenizer_config.json, chat_template.jinja, additional_chat_templates/ and the
/// numbers of special tokens in config.json. There are as many tokens as config.json's vocab_size
/// says: others are filled up or left out. Local: reads the files. Error(io) when one changes
/// meanwhile; Error(corrupt) for a config.json that is no object.
GgufTokenizer gguf_tokenizer(const std::vector<publish::Asset>& assets,
                             const std::string& config_text);

/// A token of a vocabulary, as GGUF and SentencePiece's files list it.
struct GgufToken {
    std::string text;
    float score = 0;
    int type = 1;  ///< as GGUF's: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
};

/// By number. nullopt when the text is no such file or has no pieces.
std::optional<std::vector<GgufToken>> parse_pieces(std::string_view text);

}  // namespace shardweld::app

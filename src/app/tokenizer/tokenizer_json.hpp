// tokenizer.json as the Python library tokenizers 0.23 writes it, and the settings beside it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"

namespace shardweld::app {

struct AddedToken {
    Index id = 0;
    std::string text;
    bool is_special = false;
};

/// What is done with a text before its words become tokens, as a word for each step: a regular
/// expression, "gpt2" for that of ByteLevel, "\p{N}" for single digits; what is not known as its
/// type's name.
using SplitSteps = std::vector<std::string>;

struct TokenizerJson {
    std::string model;            ///< "BPE", "Unigram", ...
    bool has_bytes = false;       ///< ByteLevel: words' letters stand for bytes
    bool falls_back = false;      ///< byte_fallback: bytes have tokens of their own, "<0x0A>"
    bool prepends_space = false;  ///< to the first word
    std::map<Index, std::string> vocabulary;
    std::vector<std::string> merges;  ///< "left right", spaces inside of either as U+0120
    std::vector<AddedToken> added;    ///< by id
    SplitSteps splits;
    std::string first;  ///< the special token that a text begins with, "" if none
    std::string last;   ///< and ends with
};

/// nullopt when the text is no such file within the limits of JSON, or has a number of a token that
/// none has.
std::optional<TokenizerJson> parse_tokenizer_json(std::string_view text);

/// tokenizer_config.json of transformers 5.23, and chat templates in files of their own.
struct TokenizerSettings {
    std::map<std::string, std::string> tokens;  ///< "bos_token": its text
    std::map<std::string, bool> flags;          ///< "add_bos_token"
    std::vector<AddedToken> added;
    std::map<std::string, std::string> templates;  ///< for chats, by name; "" the only one

    /// "" if there is none.
    [[nodiscard]] std::string token(const std::string& name) const;
    [[nodiscard]] std::optional<bool> flag(const std::string& name) const;
};

/// What a file of that name holds; nullopt: it is not there.
using TextOfFile = std::function<std::optional<std::string>(const std::string& name)>;

/// The settings in tokenizer_config.json, and templates: in chat_template.jinja, in
/// chat_template.json of older versions, and `named`, additional_chat_templates/NAME.jinja. What is
/// not there, or no JSON object, says nothing. A list in tokenizer_config.json names all templates
/// there are.
TokenizerSettings parse_tokenizer_settings(const TextOfFile& text_of,
                                           const std::map<std::string, std::string>& named);

}  // namespace shardweld::app

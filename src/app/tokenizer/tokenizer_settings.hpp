// tokenizer_config.json of transformers 5.23, and chat templates in files of their own. Knows their
// fields; nothing of who asks for them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer_json.hpp"

namespace shardweld::app {

struct TokenizerSettings {
    std::map<std::string, std::string> tokens;  ///< "bos_token": its text
    std::map<std::string, bool> flags;          ///< "add_bos_token"
    std::vector<AddedToken> added;
    std::map<std::string, std::string> templates;  ///< for chats, by name; "" the only one

    /// "" if there is none.
    [[nodiscard]] std::string token(const std::string& name) const;
    [[nodiscard]] std::optional<bool> flag(const std::string& name) const;
};

/// Texts of chat templates in files of their own.
struct TemplateFiles {
    std::optional<std::string> jinja;          ///< chat_template.jinja
    std::optional<std::string> json;           ///< chat_template.json, of older versions
    std::map<std::string, std::string> named;  ///< additional_chat_templates/NAME.jinja
};

/// The text of tokenizer_config.json, and templates; what is not there, or no JSON object, says
/// nothing. A list in tokenizer_config.json names all templates there are.
TokenizerSettings parse_tokenizer_settings(const std::optional<std::string>& config,
                                           const TemplateFiles& files);

}  // namespace shardweld::app

#include "tokenizer_settings.hpp"

#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"

namespace shardweld::app {

namespace {

using Json = nlohmann::json;

Json object_in(const std::optional<std::string>& text) {
    Json json = text ? parse_json<Json>(*text) : Json();
    return json.is_object() ? json : Json::object();
}

/// A text, which may be in an object of its own.
std::optional<std::string> text_in(const Json& value) {
    const Json content = value.is_object() ? value.value("content", Json()) : value;
    return content.is_string() ? std::optional(content.get<std::string>()) : std::nullopt;
}

void take_added(const Json& tokens, TokenizerSettings& out) {
    const Json all = tokens.is_object() ? tokens : Json::object();
    for (const auto& [number, token] : all.items()) {
        const auto id = parse_index(number);
        const auto text = token.is_object() ? text_in(token) : std::nullopt;
        if (id && *id >= 0 && text) {
            out.added.push_back({*id, *text, token.value("special", Json()) == true});
        }
    }
}

void add_template(std::string name, const std::string& text, TokenizerSettings& out) {
    const auto is_odd = [](unsigned char c) { return std::isalnum(c) == 0; };
    std::ranges::replace_if(name, is_odd, '_');
    out.templates[name == "default" ? "" : name] = text;
}

void take_templates(const Json& all, TokenizerSettings& out) {
    for (const Json& one : all.is_array() ? all : Json::array()) {
        const auto name = one.is_object() ? text_in(one.value("name", Json())) : std::nullopt;
        const auto text = one.is_object() ? text_in(one.value("template", Json())) : std::nullopt;
        if (name && !name->empty() && text) {
            add_template(*name, *text, out);
        }
    }
}

}  // namespace

std::string TokenizerSettings::token(const std::string& name) const {
    const auto found = tokens.find(name);
    return found == tokens.end() ? "" : found->second;
}

std::optional<bool> TokenizerSettings::flag(const std::string& name) const {
    const auto found = flags.find(name);
    return found == flags.end() ? std::nullopt : std::optional(found->second);
}

TokenizerSettings parse_tokenizer_settings(const std::optional<std::string>& config,
                                           const TemplateFiles& files) {
    TokenizerSettings out;
    const Json settings = object_in(config);
    for (const auto& [name, value] : settings.items()) {
        const auto text = name.ends_with("_token") ? text_in(value) : std::nullopt;
        if (text) {
            out.tokens[name] = *text;
        } else if (value.is_boolean()) {
            out.flags[name] = value.get<bool>();
        }
    }
    take_added(settings.value("added_tokens_decoder", Json()), out);
    const Json stated = settings.value("chat_template", Json());
    take_templates(stated, out);
    if (stated.is_array()) {
        return out;
    }
    for (const auto& [name, text] : files.named) {
        add_template(name, text, out);
    }
    auto only = text_in(stated);
    only = only ? only : files.jinja;
    only = only ? only : text_in(object_in(files.json).value("chat_template", Json()));
    if (only) {
        out.templates[""] = *only;
    }
    return out;
}

}  // namespace shardweld::app

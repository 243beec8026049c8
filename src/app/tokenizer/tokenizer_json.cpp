#include "tokenizer_json.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"

namespace shardweld::app {

namespace {

using Json = nlohmann::json;

// More than any vocabulary has: a larger number is not a token's.
constexpr Index kMostNumbers = 1 << 24;
constexpr const char* kSpaceLetter = "\u0120";  // ByteLevel's letter for a space

Json field(const Json& object, const char* name) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    return found == object.end() ? Json() : *found;
}

std::string text_in(const Json& object, const char* name) {
    const Json value = field(object, name);
    return value.is_string() ? value.get<std::string>() : "";
}

bool is_set(const Json& object, const char* name, bool missing = false) {
    const Json value = field(object, name);
    return value.is_boolean() ? value.get<bool>() : missing;
}

std::optional<Index> token_number(const Json& value) {
    if (!value.is_number_integer() || value < 0 || value >= kMostNumbers) {
        return std::nullopt;
    }
    return value.get<Index>();
}

std::string without_spaces(const std::string& text) {
    return add_up(text, [&](const char letter) {
        return letter == ' ' ? kSpaceLetter : std::string(1, letter);
    });
}

/// Takes vocabulary and merges out while the text is read: they are most of it.
class LargeParts {
  public:
    explicit LargeParts(TokenizerJson& out) : out_(out) {}

    [[nodiscard]] bool is_good() const { return is_good_; }

    /// Whether the value stays in the tree.
    bool visit(int depth, Json::parse_event_t event, const Json& parsed) {
        using Event = Json::parse_event_t;
        const auto level = as_size(depth);
        if (event == Event::key && level < path_.size()) {
            path_[level] = parsed.get<std::string>();
        }
        const bool is_inside = path_[1] == "model" && level >= 3;
        if (is_inside && path_[2] == "vocab" && event == Event::value) {
            const auto number = token_number(parsed);
            is_good_ = is_good_ && number;
            out_.vocabulary[number.value_or(0)] = path_[3];
            return false;
        }
        if (is_inside && path_[2] == "merges") {
            merge(level, event, parsed);
            return event != Event::value && event != Event::array_end;
        }
        return true;
    }

  private:
    void merge(std::size_t level, Json::parse_event_t event, const Json& parsed) {
        using Event = Json::parse_event_t;
        if (event == Event::value && level == 3 && parsed.is_string()) {
            out_.merges.push_back(parsed.get<std::string>());
        } else if (event == Event::value && parsed.is_string()) {
            pair_.push_back(without_spaces(parsed.get<std::string>()));
        } else if (event == Event::array_end && level == 3) {
            is_good_ = is_good_ && pair_.size() == 2;
            out_.merges.push_back(pair_.size() == 2 ? pair_[0] + " " + pair_[1] : "");
            pair_.clear();
        }
    }

    TokenizerJson& out_;
    std::array<std::string, 4> path_;
    std::vector<std::string> pair_;
    bool is_good_ = true;
};

/// Carriage returns and line feeds as they are written in expressions.
std::string escaped(const std::string& expression) {
    return add_up(expression, [&](const char letter) {
        return letter == '\n' ? "\\n" : letter == '\r' ? "\\r" : std::string(1, letter);
    });
}

void take_step(const Json& step, TokenizerJson& out) {
    const std::string type = text_in(step, "type");
    if (type == "Split") {
        const Json pattern = field(step, "pattern");
        out.splits.push_back(escaped(text_in(pattern, "Regex") + text_in(pattern, "String")));
    } else if (type == "Digits") {
        out.splits.emplace_back(is_set(step, "individual_digits") ? "\\p{N}" : "\\p{N}+");
    } else if (type == "ByteLevel") {
        out.has_bytes = true;
        if (is_set(step, "use_regex", true)) {
            out.splits.emplace_back("gpt2");
        }
    } else if (type == "Metaspace") {
        const std::string scheme = text_in(step, "prepend_scheme");
        out.prepends_space =
            scheme.empty() ? is_set(step, "add_prefix_space", true) : scheme != "never";
    } else if (!type.empty()) {
        out.splits.push_back(type);
    }
}

/// A step, or those of a sequence.
template <typename Use>
void for_each_step(const Json& step, const char* name, const Use& use) {
    const Json inner = field(step, name);
    if (!inner.is_array()) {
        use(step);
        return;
    }
    for (const Json& one : inner) {
        use(one);
    }
}

/// The special tokens at the ends of one text.
void take_ends(const Json& processor, TokenizerJson& out) {
    const Json single = field(processor, "single");
    if (text_in(processor, "type") != "TemplateProcessing" || !single.is_array() ||
        single.size() < 2) {
        return;
    }
    out.first = text_in(field(single.front(), "SpecialToken"), "id");
    out.last = text_in(field(single.back(), "SpecialToken"), "id");
}

bool take_added(const Json& tokens, TokenizerJson& out) {
    for (const Json& token : tokens.is_array() ? tokens : Json::array()) {
        const auto number = token_number(field(token, "id"));
        if (!number) {
            return false;
        }
        out.added.push_back({*number, text_in(token, "content"), is_set(token, "special")});
    }
    std::ranges::sort(out.added, {}, &AddedToken::id);
    return true;
}

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

std::optional<TokenizerJson> parse_tokenizer_json(std::string_view text) {
    TokenizerJson out;
    LargeParts large(out);
    const Json json =
        parse_json<Json>(text, nullptr, [&](int depth, Json::parse_event_t event, Json& parsed) {
            return large.visit(depth, event, parsed);
        });
    if (!json.is_object() || !large.is_good() || !take_added(field(json, "added_tokens"), out)) {
        return std::nullopt;
    }
    const Json model = field(json, "model");
    out.model = text_in(model, "type");
    out.falls_back = is_set(model, "byte_fallback");
    for_each_step(field(json, "normalizer"), "normalizers", [&](const Json& step) {
        out.prepends_space = out.prepends_space || text_in(step, "type") == "Prepend";
    });
    for_each_step(field(json, "pre_tokenizer"), "pretokenizers",
                  [&](const Json& step) { take_step(step, out); });
    for_each_step(field(json, "post_processor"), "processors",
                  [&](const Json& step) { take_ends(step, out); });
    return out;
}

std::string TokenizerSettings::token(const std::string& name) const {
    return copy_or(find_value(tokens, name), "");
}

std::optional<bool> TokenizerSettings::flag(const std::string& name) const {
    return copy_of(find_value(flags, name));
}

TokenizerSettings parse_tokenizer_settings(const TextOfFile& text_of,
                                           const std::map<std::string, std::string>& named) {
    TokenizerSettings out;
    const Json settings = object_in(text_of("tokenizer_config.json"));
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
    for (const auto& [name, text] : named) {
        add_template(name, text, out);
    }
    auto only = text_in(stated);
    only = only ? only : text_of("chat_template.jinja");
    only = only ? only
                : text_in(object_in(text_of("chat_template.json")).value("chat_template", Json()));
    if (only) {
        out.templates[""] = *only;
    }
    return out;
}

}  // namespace shardweld::app

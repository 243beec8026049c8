#include "shardweld/adapters/run_config.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

namespace shardweld::adapters {

namespace {

using Fields = std::map<std::string, std::string, std::less<>>;

std::size_t indent_of(std::string_view line) {
    return std::min(line.find_first_not_of(' '), line.size());
}

std::string_view unquoted(std::string_view text) {
    const bool is_quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                           text.back() == text.front();
    return is_quoted ? text.substr(1, text.size() - 2) : text;
}

/// The scalars of one section of a mapping: "  key: value" one level below "section:".
Fields section_of(std::string_view yaml, std::string_view section) {
    Fields fields;
    std::size_t level = 0;
    bool is_inside = false;
    for (const std::string_view line : split(yaml, '\n')) {
        const std::string_view text = trim(line);
        if (text.empty() || text.front() == '#') {
            continue;
        }
        const std::size_t indent = indent_of(line);
        const std::size_t colon = text.find(':');
        if (indent == 0) {
            is_inside = colon != std::string_view::npos && text.substr(0, colon) == section;
            level = 0;
            continue;
        }
        level = level == 0 ? indent : level;
        if (is_inside && indent == level && colon != std::string_view::npos) {
            fields.emplace(text.substr(0, colon), unquoted(trim(text.substr(colon + 1))));
        }
    }
    return fields;
}

/// A number where it is one; else text, which is refused where a number is needed.
nlohmann::ordered_json value_of(const std::string& text) {
    auto value = nlohmann::ordered_json::parse(text, nullptr, false);
    return value.is_number() ? value : nlohmann::ordered_json(text);
}

}  // namespace

ConfigFile train_meta_of(const ConfigFile& run_config) {
    const Fields fields = section_of(run_config.text, "peft");
    if (fields.empty()) {
        return {run_config.path, ""};
    }
    const auto target = fields.find("_target_");
    const std::string kind =
        target == fields.end() ? "LoRA" : target->second.substr(target->second.rfind('.') + 1);
    if (kind != "LoRA" && kind != "CanonicalLoRA" && kind != "VLMLoRA") {
        throw Error(ErrorCode::unsupported,
                    run_config.path + " says that the adapter is of " + printable(kind),
                    "merge it into the model with the framework that trained it");
    }
    nlohmann::ordered_json meta = nlohmann::ordered_json::object();
    for (const auto& [from, to] : {std::pair("dim", "r"), std::pair("alpha", "lora_alpha")}) {
        if (const auto field = fields.find(from); field != fields.end()) {
            meta[to] = value_of(field->second);
        }
    }
    meta["task_type"] = "CAUSAL_LM";
    return {run_config.path, meta.dump()};
}

}  // namespace shardweld::adapters

#include "sentence_modules.hpp"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"

namespace shardweld::publish {

namespace {

using nlohmann::json;

constexpr std::size_t kMostModules = 100;

bool is_word_letter(char letter) {
    return letter == '_' || is_digit(letter) || (letter >= 'a' && letter <= 'z') ||
           (letter >= 'A' && letter <= 'Z');
}

bool is_config_name(std::string_view name) {
    return name == "config.json" || name.ends_with("_config.json");
}

std::string text_at(const json& module, const char* key) {
    const auto at = module.find(key);
    return at != module.end() && at->is_string() ? at->get<std::string>() : "";
}

void take_module(const json& module, ModuleList& found) {
    const std::string path = module.is_object() ? text_at(module, "path") : "";
    const std::string type = path.empty() ? "" : text_at(module, "type");
    if (path.empty() || type.ends_with("Normalize")) {
        return;  // the transformer itself, or a module without files
    }
    if (type.ends_with("Transformer")) {
        found.lost.push_back(path +
                             " (where modules.json has the model that is written beside it)");
    } else if (is_module_directory(path)) {
        if (std::ranges::count(found.directories, path) == 0) {
            found.directories.push_back(path);
        }
    } else {
        found.lost.push_back(path + " (which modules.json names, and no module has)");
    }
}

}  // namespace

bool is_of_sentence_model(std::string_view file_name) {
    return file_name == "modules.json" || file_name == "config_sentence_transformers.json" ||
           (file_name.starts_with("sentence_") && is_config_name(file_name));
}

bool is_of_module(std::string_view file_name) {
    return is_config_name(file_name) || file_name == "model.safetensors" ||
           file_name == "pytorch_model.bin";
}

bool is_module_directory(std::string_view name) {
    const std::size_t digits = name.find_first_not_of("0123456789");
    return digits != std::string_view::npos && digits > 0 && name[digits] == '_' &&
           digits + 1 < name.size() && std::ranges::all_of(name.substr(digits), is_word_letter);
}

ModuleList parse_modules(const std::string& text) {
    ModuleList found;
    const json modules = parse_json<json>(text);
    if (!modules.is_array() || modules.size() > kMostModules) {
        found.lost.emplace_back("modules.json (no list of modules)");
        return found;
    }
    for (const json& module : modules) {
        take_module(module, found);
    }
    return found;
}

}  // namespace shardweld::publish

#include "config_tree.hpp"

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"

namespace shardweld::models {

namespace {

using nlohmann::ordered_json;

/// nullptr where there is nothing at the path.
ordered_json* member_of(ordered_json& root, std::string_view path) {
    ordered_json* at = &root;
    for (const std::string_view name : split(path, '.')) {
        const auto found = at->is_object() ? at->find(std::string(name)) : at->end();
        if (!at->is_object() || found == at->end()) {
            return nullptr;
        }
        at = &*found;
    }
    return at;
}

void collect_parts(const ordered_json& from, const std::string& prefix,
                   std::vector<std::string>& paths) {
    for (const auto& [name, value] : from.items()) {
        if (!value.is_object() || has_part(name, '.')) {
            continue;
        }
        const auto type = value.find("model_type");
        if (type != value.end() && type->is_string()) {
            paths.push_back(prefix + name);
        }
        collect_parts(value, prefix + name + ".", paths);
    }
}

}  // namespace

struct ConfigTree::State {
    ordered_json root;
};

ConfigTree::ConfigTree(const Config& config) : state_(std::make_shared<State>()) {
    state_->root = parse_known_json<ordered_json>(without_nonfinite(config.text_to_write()));
}

std::vector<std::string> ConfigTree::parts() const {
    std::vector<std::string> paths;
    if (state_->root.is_object()) {
        collect_parts(state_->root, "", paths);
    }
    return paths;
}

std::optional<std::string> ConfigTree::text(std::string_view path) const {
    const ordered_json* const found = member_of(state_->root, path);
    return found != nullptr && found->is_string() ? std::optional(found->get<std::string>())
                                                  : std::nullopt;
}

std::optional<bool> ConfigTree::flag(std::string_view path) const {
    const ordered_json* const found = member_of(state_->root, path);
    if (found == nullptr || !(found->is_boolean() || found->is_number())) {
        return std::nullopt;
    }
    return found->is_boolean() ? found->get<bool>() : found->get<double>() != 0;
}

void ConfigTree::set(std::string_view path, bool value) {
    const std::size_t dot = path.rfind('.');
    ordered_json* const around = dot == std::string_view::npos
                                     ? &state_->root
                                     : member_of(state_->root, path.substr(0, dot));
    if (around != nullptr && around->is_object()) {
        (*around)[std::string(path.substr(dot == std::string_view::npos ? 0 : dot + 1))] = value;
    }
}

std::string ConfigTree::text_to_write() const {
    return with_nonfinite(state_->root.dump(2)) + "\n";
}

}  // namespace shardweld::models

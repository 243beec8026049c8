#include "scheme.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

namespace shardweld::loaders {

namespace {

using nlohmann::json;

std::string text_in(const json& object, const char* name) {
    const auto at = object.find(name);
    return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

std::optional<Index> number_in(const json& object, const char* name) {
    const auto at = object.find(name);
    return at != object.end() && at->is_number_integer() ? std::optional(at->get<Index>())
                                                         : std::nullopt;
}

void take_block(const json& extents, Scheme& scheme) {
    if (extents.is_array() && extents.size() == 2 && extents[0].is_number_integer() &&
        extents[1].is_number_integer() && extents[0].get<Index>() > 0 &&
        extents[1].get<Index>() > 0) {
        scheme.block_rows = extents[0].get<Index>();
        scheme.block_columns = extents[1].get<Index>();
    }
}

Method method_in(std::string_view text) {
    constexpr std::array<std::pair<std::string_view, Method>, 3> kMethods = {
        {{"fp8", Method::fp8},
         {"compressed-tensors", Method::compressed_tensors},
         {"mxfp4", Method::mxfp4}}};
    const auto* const at =
        std::ranges::find(kMethods, text, [](const auto& row) { return row.first; });
    return at == kMethods.end() ? Method::other : at->second;
}

/// The weights' arguments of the first group.
void take_groups(const json& config, Scheme& scheme) {
    const auto groups = config.find("config_groups");
    if (groups == config.end() || !groups->is_object() || groups->empty()) {
        return;
    }
    const json& first = *groups->begin();
    const auto weights = first.is_object() ? first.find("weights") : first.end();
    if (!first.is_object() || weights == first.end() || !weights->is_object()) {
        return;
    }
    scheme.strategy = text_in(*weights, "strategy");
    scheme.group_size = number_in(*weights, "group_size");
    scheme.num_bits = number_in(*weights, "num_bits");
    if (const auto block = weights->find("block_structure"); block != weights->end()) {
        take_block(*block, scheme);
    }
}

void take_ignored(const json& config, Scheme& scheme) {
    for (const char* name : {"ignore", "modules_to_not_convert", "ignored_layers"}) {
        const auto list = config.find(name);
        if (list == config.end() || !list->is_array()) {
            continue;
        }
        for (const json& entry : *list) {
            if (entry.is_string()) {
                scheme.ignored.push_back(entry.get<std::string>());
            }
        }
    }
}

bool is_expression_for(const std::string& entry, std::string_view module) {
    try {
        return Regex(entry.substr(3)).is_found_in(module);
    } catch (const Error&) {
        return false;  // Python's look-around: rather one finding too many
    }
}

bool ends_in_component(std::string_view name, std::string_view ending) {
    return name.ends_with(ending) &&
           (name.size() == ending.size() || name[name.size() - ending.size() - 1] == '.');
}

void add_part(std::map<std::string, Module>& modules, const std::string& name,
              const StoredTensor& tensor) {
    constexpr std::array<std::pair<std::string_view, const StoredTensor * Module::*>, 5> kParts = {
        {{"weight", &Module::weight},
         {"weight_scale_inv", &Module::scale},
         {"weight_scale", &Module::scale},
         {"weight_packed", &Module::packed},
         {"weight_global_scale", &Module::global}}};
    for (const auto& [ending, part] : kParts) {
        if (ends_in_component(name, ending) && name.size() > ending.size()) {
            Module& module = modules[name.substr(0, name.size() - ending.size() - 1)];
            module.*part = &tensor;
        }
    }
}

}  // namespace

bool Scheme::ignores(std::string_view module) const {
    return std::ranges::any_of(ignored, [&](const std::string& entry) {
        if (entry.starts_with("re:")) {
            return is_expression_for(entry, module);
        }
        return module == entry || module.starts_with(entry + ".") ||
               ends_in_component(module, entry) || glob_matches(entry, module);
    });
}

Scheme scheme_of(const nlohmann::json& quantization_config) {
    Scheme scheme;
    if (!quantization_config.is_object()) {
        return scheme;
    }
    scheme.method_text = text_in(quantization_config, "quant_method");
    scheme.method = method_in(scheme.method_text);
    scheme.status = text_in(quantization_config, "quantization_status");
    if (const auto block = quantization_config.find("weight_block_size");
        block != quantization_config.end()) {
        take_block(*block, scheme);
    }
    take_groups(quantization_config, scheme);
    take_ignored(quantization_config, scheme);
    return scheme;
}

std::string_view Module::kind() const {
    return std::string_view(name).substr(name.rfind('.') + 1);
}

std::optional<std::pair<Index, Index>> Module::extents(const Scheme& scheme) const {
    const StoredTensor* const stored = packed != nullptr ? packed : weight;
    if (stored == nullptr || stored->shape.size() != 2) {
        return std::nullopt;
    }
    if (packed == nullptr) {
        return std::pair(stored->shape[0], stored->shape[1]);
    }
    const Index bits = scheme.num_bits.value_or(0);
    const auto word = to_index(size_of(packed->dtype), "a word") * 8;
    if (bits <= 0 || word % bits != 0) {
        return std::nullopt;
    }
    return std::pair(stored->shape[0], checked_mul(stored->shape[1], word / bits, name));
}

std::map<std::string, Module> modules_of(const std::map<std::string, StoredTensor>& tensors) {
    std::map<std::string, Module> modules;
    for (const auto& [name, tensor] : tensors) {
        add_part(modules, name, tensor);
    }
    std::erase_if(modules, [](const auto& entry) {
        const Module& module = entry.second;
        return module.packed == nullptr &&
               (module.weight == nullptr || module.weight->shape.size() != 2);
    });
    for (auto& [name, module] : modules) {
        module.name = name;
    }
    return modules;
}

}  // namespace shardweld::loaders

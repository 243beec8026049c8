#include "scheme.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/config_fields.hpp"
#include "core/regex.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "known_names.hpp"

namespace shardweld::loaders {

using nlohmann::json;

json value_in(const json& object, const char* name) {
    if (!object.is_object()) {
        return {};
    }
    const auto at = object.find(name);
    return at == object.end() ? json() : *at;
}

std::string text_in(const json& object, const char* name) {
    const json value = value_in(object, name);
    return value.is_string() ? value.get<std::string>() : "";
}

std::optional<Index> number_in(const json& object, const char* name) {
    const json value = value_in(object, name);
    return value.is_number_integer() ? std::optional(value.get<Index>()) : std::nullopt;
}

namespace {

std::vector<std::string> texts_in(const json& object, const char* name) {
    std::vector<std::string> texts;
    const auto list = object.find(name);
    if (list != object.end() && list->is_array()) {
        for (const json& entry : *list) {
            if (entry.is_string()) {
                texts.push_back(entry.get<std::string>());
            }
        }
    }
    return texts;
}

void take_block(const json& object, const char* name, Group& group) {
    const auto at = object.find(name);
    if (at == object.end() || !at->is_array() || at->size() != 2 || !(*at)[0].is_number_integer() ||
        !(*at)[1].is_number_integer()) {
        return;
    }
    const auto rows = (*at)[0].get<Index>();
    const auto columns = (*at)[1].get<Index>();
    if (rows > 0 && columns > 0) {
        group.block_rows = rows;
        group.block_columns = columns;
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

void take_group(const json& group, Scheme& scheme) {
    const auto weights = group.is_object() ? group.find("weights") : group.end();
    if (!group.is_object() || weights == group.end() || !weights->is_object()) {
        return;
    }
    Group taken;
    taken.group_size = number_in(*weights, "group_size");
    taken.strategy = text_in(*weights, "strategy");
    if (taken.strategy.empty()) {
        taken.strategy = taken.group_size.value_or(0) > 0 ? "group" : "tensor";
    }
    taken.num_bits = number_in(*weights, "num_bits").value_or(8);
    taken.is_float = text_in(*weights, "type") == "float";
    take_block(*weights, "block_structure", taken);
    scheme.groups.push_back(std::move(taken));
    std::vector<std::string> targets = texts_in(group, "targets");
    scheme.targets.push_back(targets.empty() ? std::vector<std::string>{"Linear"} : targets);
}

void take_groups(const json& config, Scheme& scheme) {
    const auto groups = config.find("config_groups");
    if (groups != config.end() && groups->is_object()) {
        for (const json& group : *groups) {
            take_group(group, scheme);
        }
    } else if (scheme.method != Method::compressed_tensors) {
        Group all;
        take_block(config, "weight_block_size", all);
        scheme.groups.push_back(std::move(all));
    }
}

bool is_expression_for(const std::string& entry, std::string_view module) {
    try {
        return Regex("^(?:" + entry.substr(3) + ")").is_found_in(module);
    } catch (const Error&) {
        return false;  // Python's look-around: rather one finding too many
    }
}

bool ends_in_component(std::string_view name, std::string_view ending) {
    return name.ends_with(ending) &&
           (name.size() == ending.size() || name[name.size() - ending.size() - 1] == '.');
}

constexpr std::array<std::pair<std::string_view, const StoredTensor * Module::*>, 6> kParts = {
    {{"weight", &Module::weight},
     {"weight_scale_inv", &Module::scale},
     {"weight_scale", &Module::scale},
     {"scale", &Module::scale},
     {"weight_packed", &Module::packed},
     {"weight_global_scale", &Module::global}}};

/// Ends of names in GPTQ and AWQ, bitsandbytes, ModelOpt, HQQ, AQLM, EXL2 and 3, EETQ, QuIP, VPTQ,
/// SpQR, Marlin.
constexpr std::string_view kOtherParts =
    "qweight qzeros g_idx SCB weight_format W_q weight_scales codebooks codes Qidxs trellis "
    "q_weight q_scale q_groups B_24 scale_and_zero quant_scale qscale_weight weight_scale_2 "
    "input_amax qscale_act centroids indices row_offsets bitmask compressed dense_weights suh svh "
    "weight_scale_1";

/// Beside codes of known encodings.
constexpr std::string_view kSideParts =
    "weight_shape weight_zero_point weight_g_idx input_scale activation_scale input_zero_point "
    "output_scale k_scale v_scale input_global_scale scales k_zero_point v_zero_point "
    "output_zero_point";

/// "layer.weight" of "layer.weight.absmax": what hangs on a tensor is told of its codes.
std::string_view owner_of_part(std::string_view name) {
    constexpr std::string_view kOfWeight = ".weight.";
    const std::size_t at = name.find(kOfWeight);
    return at == std::string_view::npos ? std::string_view() : name.substr(0, at);
}

void add_part(std::map<std::string, Module>& modules, const std::string& name,
              const StoredTensor& tensor) {
    if (const std::string_view owner = owner_of_part(name); !owner.empty()) {
        modules[std::string(owner)].other = name.substr(owner.size() + 1);
        return;
    }
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos || dot == 0) {
        return;
    }
    const std::string part = name.substr(dot + 1);
    const auto* const known =
        std::ranges::find(kParts, part, [](const auto& row) { return row.first; });
    if (known != kParts.end()) {
        Module& module = modules[name.substr(0, dot)];
        module.*(known->second) = &tensor;
        if (known->second == &Module::scale) {
            module.scale_name = known->first;
        }
    } else if (is_one_of(kOtherParts, part)) {
        modules[name.substr(0, dot)].other = part;
    }
}

bool is_module(const Module& module) {
    return module.packed != nullptr || !module.other.empty() ||
           (module.weight != nullptr && module.weight->shape.size() == 2);
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

const Group* Scheme::group_of(std::string_view module) const {
    if (targets.empty()) {
        return groups.empty() ? nullptr : &groups.front();
    }
    try {
        const auto found = shardweld::group_of(module, targets);
        return found ? &groups[*found] : nullptr;
    } catch (const Error&) {
        return nullptr;  // Python's look-around: of what it means nothing is said
    }
}

bool Scheme::is_in_no_group(std::string_view module) const {
    try {
        return std::ranges::none_of(targets, [&](const auto& of_one) {
            return shardweld::group_of(module, {of_one}).has_value();
        });
    } catch (const Error&) {
        return false;
    }
}

Scheme scheme_of(const nlohmann::json& quantization_config) {
    Scheme scheme;
    if (!quantization_config.is_object()) {
        return scheme;
    }
    scheme.method_text = text_in(quantization_config, "quant_method");
    scheme.method = method_in(scheme.method_text);
    scheme.status = text_in(quantization_config, "quantization_status");
    take_groups(quantization_config, scheme);
    for (const char* name : {"ignore", "modules_to_not_convert", "ignored_layers"}) {
        std::ranges::move(texts_in(quantization_config, name), std::back_inserter(scheme.ignored));
    }
    return scheme;
}

bool is_codes(DType dtype) {
    return size_of(dtype) == 1 && dtype != DType::boolean;
}

bool is_part_of_codes(std::string_view name) {
    const std::string_view part = name.substr(name.rfind('.') + 1);
    const bool is_known = std::ranges::any_of(
        kParts, [&](const auto& row) { return row.first == part && row.first != "weight"; });
    return is_known || is_one_of(kOtherParts, part) || is_one_of(kSideParts, part) ||
           !owner_of_part(name).empty() || part.ends_with("_scale_inv") ||
           part.ends_with("_blocks") || part.ends_with("_scales") || part.ends_with("_scale") ||
           part.ends_with("_zero_point") || part.ends_with("_packed");
}

bool Module::has_codes() const {
    return weight != nullptr && is_codes(weight->dtype);
}

bool Module::is_quantised() const {
    return packed != nullptr || !other.empty() || has_codes() ||
           (scale != nullptr && scale_name != "scale");
}

std::string_view Module::kind() const {
    const std::string_view whole = name;
    return whole.substr(whole.rfind('.') + 1);
}

std::optional<std::pair<Index, Index>> Module::extents(const Scheme& scheme) const {
    const StoredTensor* const stored = packed != nullptr ? packed : weight;
    if (stored == nullptr || stored->shape.size() != 2 || !other.empty()) {
        return std::nullopt;
    }
    if (packed == nullptr) {
        return std::pair(stored->shape[0], stored->shape[1]);
    }
    const Group* const group = scheme.group_of(name);
    const Index bits = group == nullptr ? 0 : group->num_bits.value_or(0);
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
    std::erase_if(modules, [](const auto& entry) { return !is_module(entry.second); });
    for (auto& [name, module] : modules) {
        module.name = name;
    }
    return modules;
}

}  // namespace shardweld::loaders

#include "settings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/in_context.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "hints.hpp"

namespace shardweld::formats {

namespace {

using nlohmann::json;

/// Deeper than any settings; hostile pickles hold cycles.
constexpr int kDeepestSetting = 8;
/// What a step of Adam is computed with, and what Megatron tells groups by.
constexpr std::array<std::string_view, 12> kComputedWith = {
    "lr",     "betas",  "eps",     "weight_decay",       "initial_lr",      "step",
    "max_lr", "min_lr", "wd_mult", "is_expert_parallel", "is_decoupled_lr", "lr_mult"};
constexpr const char* kUnreadable = R"("of another kind")";

json number_of(double value) {
    return std::isfinite(value) ? json(value) : json(real_text(value));
}

std::optional<double> number_in(const std::string& text) {
    const json value = json::parse(text, nullptr, false);
    return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

/// A tensor of one element, or what numpy keeps a number in; a text of digits is none.
std::optional<json> wrapped_number(const PickleValue& value, const ScalarReader& scalars) {
    const auto text = is_text(value) ? std::nullopt : scalars.text_of(value);
    const auto number = text ? number_in(*text) : std::nullopt;
    return number ? std::optional(number_of(*number)) : std::nullopt;
}

void require_few(const PickleValue& mapping) {
    if (mapping.pair_count() > kMostSettings) {
        throw Error(ErrorCode::unsupported,
                    "a dictionary of an optimizer's settings has " +
                        std::to_string(mapping.pair_count()) + " names, and they are some dozens",
                    kWeightsOnly);
    }
}

/// One setting's value, or a part of it, which is counted with the `n_values` before; nullopt where
/// a part of it has no words in JSON. Error(unsupported) where there are more than a setting may
/// have.
std::optional<json> json_of(const PickleValue& value, const ScalarReader& scalars,
                            std::size_t& n_values, int depth = 0);

std::optional<json> list_of(const PickleValue& value, const ScalarReader& scalars,
                            std::size_t& n_values, int depth) {
    json list = json::array();
    for (const PickleValue* const element : value.elements()) {
        auto one = json_of(*element, scalars, n_values, depth + 1);
        if (!one) {
            return std::nullopt;
        }
        list.push_back(std::move(*one));
    }
    return list;
}

/// One without some of its entries would be another.
std::optional<json> mapping_of(const PickleValue& value, const ScalarReader& scalars,
                               std::size_t& n_values, int depth) {
    require_few(value);
    json mapping = json::object();
    for (const auto& [key, part] : value.pairs()) {
        auto one = json_of(part, scalars, n_values, depth + 1);
        if (key.kind != PickleKind::text || !one) {
            return std::nullopt;
        }
        mapping[printable(key.text())] = std::move(*one);
    }
    return mapping;
}

std::optional<json> json_of(const PickleValue& value, const ScalarReader& scalars,
                            std::size_t& n_values, int depth) {
    if (++n_values > kMostSettingValues) {
        throw Error(ErrorCode::unsupported,
                    "with it the settings of the optimizer are over " +
                        counted(kMostSettingValues, "value") + ", and they are some dozens",
                    kWeightsOnly);
    }
    const PickleValue& bare = unwrapped(value);
    if (depth > kDeepestSetting) {
        return std::nullopt;
    }
    switch (bare.kind) {
        case PickleKind::none:
            return json();
        case PickleKind::boolean:
            return json(bare.integer != 0);
        case PickleKind::integer:
            return json(bare.integer);
        case PickleKind::real:
            return number_of(bare.real);
        case PickleKind::text:
            return json(printable(bare.text()));
        case PickleKind::tuple:
        case PickleKind::list:
            return list_of(bare, scalars, n_values, depth);
        default:
            return bare.is_mapping() ? mapping_of(bare, scalars, n_values, depth)
                                     : wrapped_number(bare, scalars);
    }
}

std::optional<std::string> counted_text(const PickleValue& value, const ScalarReader& scalars,
                                        std::size_t& n_values) {
    const auto found = json_of(value, scalars, n_values);
    return found ? std::optional(found->dump()) : std::nullopt;
}

bool is_of_members(std::string_view name) {
    return name.empty() || name == "params" || name == "param_names";
}

/// What `read` has words for of the entries of a mapping, but for what names members.
Settings read_settings(const PickleValue& mapping, const ScalarReader& scalars,
                       std::size_t& n_values, decltype(named_setting)& read) {
    Settings settings;
    require_few(mapping);
    for (const auto& [key, value] : mapping.pairs()) {
        const std::string_view name = key.text();
        if (is_of_members(name)) {
            continue;
        }
        if (auto text = read(name, value, scalars, n_values)) {
            settings[printable(name)] = std::move(*text);
        }
    }
    return settings;
}

}  // namespace

std::optional<std::string> json_text(const PickleValue& value, const ScalarReader& scalars) {
    std::size_t n_values = 0;
    return counted_text(value, scalars, n_values);
}

std::optional<std::string> named_setting(std::string_view name, const PickleValue& value,
                                         const ScalarReader& scalars, std::size_t& n_values) {
    return in_context("setting ", name, [&] { return counted_text(value, scalars, n_values); });
}

std::optional<std::string> group_setting(std::string_view name, const PickleValue& value,
                                         const ScalarReader& scalars, std::size_t& n_values) {
    auto text = named_setting(name, value, scalars, n_values);
    const bool is_missed = !text && contains(kComputedWith, name);
    return is_missed ? std::optional<std::string>(kUnreadable) : text;
}

Settings settings_of(const PickleValue& mapping, const ScalarReader& scalars) {
    std::size_t n_values = 0;
    return read_settings(mapping, scalars, n_values, named_setting);
}

std::vector<ParameterGroup> groups_of(const PickleValue* list, const ScalarReader& scalars) {
    std::vector<ParameterGroup> groups;
    std::size_t n_values = 0;
    if (list != nullptr && list->is_list()) {
        for (const PickleValue* const group : list->elements()) {
            if (!group->is_mapping()) {
                refuse_said("the optimizer's parameter groups are no dictionaries but " +
                            in_words(group->kind));
            }
            groups.push_back({read_settings(*group, scalars, n_values, group_setting), {}});
        }
    }
    return groups;
}

}  // namespace shardweld::formats

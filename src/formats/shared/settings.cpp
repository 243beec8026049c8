#include "settings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "hints.hpp"

namespace shardweld::formats {

namespace {

using nlohmann::json;

/// Deeper than any settings; hostile pickles hold cycles.
constexpr int kDeepestSetting = 8;
constexpr std::size_t kMostItems = 4096;
/// What a step of Adam is computed with, and what Megatron tells groups by.
constexpr std::array<std::string_view, 12> kComputedWith = {
    "lr",     "betas",  "eps",     "weight_decay",       "initial_lr",      "step",
    "max_lr", "min_lr", "wd_mult", "is_expert_parallel", "is_decoupled_lr", "lr_mult"};
constexpr const char* kUnreadable = R"("of another kind")";

std::optional<json> json_of(const PickleValue& value, const ScalarReader& scalars, int depth);

std::optional<json> list_of(const PickleValue& value, const ScalarReader& scalars, int depth) {
    json list = json::array();
    for (const PickleValue* const element :
         value.elements().first(std::min(value.elements().size(), kMostItems))) {
        auto one = json_of(*element, scalars, depth + 1);
        if (!one) {
            return std::nullopt;
        }
        list.push_back(std::move(*one));
    }
    return list;
}

std::optional<json> mapping_of(const PickleValue& value, const ScalarReader& scalars, int depth) {
    json mapping = json::object();
    for (std::size_t i = 0; i < std::min(value.pair_count(), kMostItems); ++i) {
        auto one = json_of(value.value(i), scalars, depth + 1);
        if (value.key(i).kind == PickleKind::text && one) {
            mapping[printable(value.key(i).text())] = std::move(*one);
        }
    }
    return mapping;
}

json number_of(double value) {
    return std::isfinite(value) ? json(value) : json(real_text(value));
}

std::optional<double> number_in(const std::string& text) {
    const json value = json::parse(text, nullptr, false);
    return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

/// A tensor of one element, or what numpy keeps a number in.
std::optional<json> wrapped_number(const PickleValue& value, const ScalarReader& scalars) {
    const auto text = scalars.text_of(value);
    const auto number = text ? number_in(*text) : std::nullopt;
    return number ? std::optional(number_of(*number)) : std::nullopt;
}

std::optional<json> json_of(const PickleValue& value, const ScalarReader& scalars, int depth) {
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
            return list_of(bare, scalars, depth);
        default:
            return bare.is_mapping() ? mapping_of(bare, scalars, depth)
                                     : wrapped_number(bare, scalars);
    }
}

}  // namespace

std::optional<std::string> json_text(const PickleValue& value, const ScalarReader& scalars) {
    const auto found = json_of(value, scalars, 0);
    return found ? std::optional(found->dump()) : std::nullopt;
}

catalogue::Settings settings_of(const PickleValue& mapping, const ScalarReader& scalars) {
    catalogue::Settings settings;
    for (std::size_t i = 0; mapping.is_mapping() && i < mapping.pair_count(); ++i) {
        const std::string_view name = mapping.key(i).text();
        auto text = name.empty() || name == "params" || name == "param_names"
                        ? std::nullopt
                        : json_text(mapping.value(i), scalars);
        if (text) {
            settings[printable(name)] = std::move(*text);
        }
    }
    return settings;
}

std::optional<std::string> group_setting(std::string_view name, const PickleValue& value,
                                         const ScalarReader& scalars) {
    auto text = json_text(value, scalars);
    const bool is_missed = !text && std::ranges::count(kComputedWith, name) > 0;
    return is_missed ? std::optional<std::string>(kUnreadable) : text;
}

std::vector<catalogue::ParameterGroup> groups_of(const PickleValue* list,
                                                 const ScalarReader& scalars) {
    std::vector<catalogue::ParameterGroup> groups;
    if (list != nullptr && list->is_list()) {
        for (const PickleValue* const group : list->elements()) {
            if (!group->is_mapping()) {
                throw Error(ErrorCode::corrupt,
                            "the optimizer's parameter groups are no dictionaries but " +
                                in_words(group->kind),
                            "copy the file again, or " + std::string(kWeightsOnly));
            }
            groups.push_back({settings_of(*group, scalars), {}});
            for (const std::string_view name : kComputedWith) {
                if (const PickleValue* const value = group->find(name)) {
                    groups.back().settings[std::string(name)] =
                        *group_setting(name, *value, scalars);
                }
            }
        }
    }
    return groups;
}

}  // namespace shardweld::formats

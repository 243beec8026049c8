#include "optimizer.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "shardweld/error.hpp"

#include "common_state.hpp"
#include "module_order.hpp"

namespace shardweld::reshape {

namespace {

using nlohmann::json;
using outputs::PlainValue;

/// What torch's Adam has in a group; frameworks keep more there.
constexpr std::array<std::string_view, 12> kOfTorch = {
    "lr",      "betas", "eps",        "weight_decay",   "amsgrad",    "maximize",
    "foreach", "fused", "capturable", "differentiable", "initial_lr", "decoupled_weight_decay"};

PlainValue plain(const json& value);

PlainValue list_of(const json& value) {
    std::vector<PlainValue> items;
    std::ranges::transform(value, std::back_inserter(items), plain);
    return list(std::move(items));
}

PlainValue dictionary_of(const json& value) {
    std::vector<PlainValue::Entry> entries;
    for (const auto& [key, one] : value.items()) {
        entries.push_back({key, plain(one)});
    }
    return dictionary(std::move(entries));
}

PlainValue plain(const json& value) {
    switch (value.type()) {
        case json::value_t::boolean:
            return boolean(value.get<bool>());
        case json::value_t::number_integer:
        case json::value_t::number_unsigned:
            return integer(value.get<Index>());
        case json::value_t::number_float:
            return real(value.get<double>());
        case json::value_t::string:
            return text(value.get<std::string>());
        case json::value_t::array:
            return list_of(value);
        case json::value_t::object:
            return dictionary_of(value);
        default:
            return {};
    }
}

std::string setting(const Settings& settings, const std::string& name, const char* otherwise) {
    const auto found = settings.find(name);
    return found == settings.end() ? otherwise : found->second;
}

bool is_of_megatron(const OptimizerToWrite& optimizer) {
    return std::ranges::any_of(optimizer.groups, [](const ParameterGroup& group) {
        return group.settings.contains("wd_mult");
    });
}

bool is_of_experts(const ParameterGroup& group) {
    return setting(group.settings, "is_expert_parallel", "false") == "true";
}

Settings settings_for_torch(const ParameterGroup& group) {
    Settings kept;
    std::ranges::copy_if(group.settings, std::inserter(kept, kept.end()), [](const auto& one) {
        return std::ranges::find(kOfTorch, one.first) != kOfTorch.end();
    });
    return kept;
}

std::string peak_rate(const Settings& of_torch) {
    const std::string rate = setting(of_torch, "initial_lr", "");
    return rate.empty() ? setting(of_torch, "lr", "0.0") : rate;
}

Settings first_settings(const OptimizerToWrite& optimizer) {
    return optimizer.groups.empty() ? Settings() : settings_for_torch(optimizer.groups.front());
}

/// A group as Megatron makes it of settings of torch's.
ParameterGroup megatron_group(const Settings& of_torch, bool decays, bool is_of_experts) {
    Settings settings = of_torch;
    settings.erase("initial_lr");
    settings["max_lr"] = peak_rate(of_torch);
    settings["min_lr"] = "0.0";
    settings["lr_mult"] = "1.0";
    settings["wd_mult"] = decays ? "1.0" : "0.0";
    settings["weight_decay"] = decays ? setting(of_torch, "weight_decay", "0.0") : "0.0";
    settings["is_expert_parallel"] = is_of_experts ? "true" : "false";
    settings["is_decoupled_lr"] = "false";
    settings["default_config"] = "true";
    return {std::move(settings), {}};
}

/// Transformer Engine's Adam stops at a group that does not say whether bias is corrected, and its
/// kernel takes the step as an integer. Torch's own, which Megatron falls back to, saves it as a
/// float.
void settle_for_fused_adam(double step, Settings& settings) {
    settings["step"] = json(static_cast<Index>(step)).dump();
    settings.try_emplace("bias_correction", "true");
}

std::vector<ParameterGroup> megatron_groups(const OptimizerToWrite& optimizer, bool has_experts) {
    std::vector<ParameterGroup> groups = optimizer.groups;
    if (!is_of_megatron(optimizer)) {
        const Settings settings = first_settings(optimizer);
        groups = {megatron_group(settings, true, false), megatron_group(settings, false, false)};
        if (has_experts) {
            groups.push_back(megatron_group(settings, true, true));
        }
    }
    for (ParameterGroup& group : groups) {
        settle_for_fused_adam(optimizer.step, group.settings);
    }
    return groups;
}

/// One of Megatron's optimizers.
PlainValue optimizer_of(const std::vector<ParameterGroup>& groups) {
    std::vector<PlainValue> all;
    all.reserve(groups.size());
    for (const ParameterGroup& group : groups) {
        all.push_back(plain_dictionary(group.settings));
    }
    return dictionary({{"optimizer", dictionary({{"param_groups", list(std::move(all))}})},
                       {"param_state_sharding_type", text("fully_reshardable")}});
}

std::vector<std::string> names_of(const std::vector<Parameter>& parameters) {
    std::vector<std::string> names;
    std::ranges::transform(parameters, std::back_inserter(names), &Parameter::name);
    return names;
}

/// Whether the groups name each of these parameters once, and nothing else.
bool names_all(const std::vector<ParameterGroup>& groups,
               const std::vector<Parameter>& parameters) {
    std::multiset<std::string> named;
    for (const ParameterGroup& group : groups) {
        named.insert(group.parameters.begin(), group.parameters.end());
    }
    const std::vector<std::string> names = names_of(parameters);
    return named == std::multiset<std::string>(names.begin(), names.end());
}

/// One group of all parameters: the settings of the first.
ParameterGroup one_group(const OptimizerToWrite& optimizer,
                         const std::vector<Parameter>& parameters) {
    return {first_settings(optimizer), names_of(parameters)};
}

/// Megatron's two kinds of groups, whatever experts have: vectors and biases do not decay.
std::vector<ParameterGroup> decayed_or_not(const OptimizerToWrite& optimizer,
                                           const std::vector<Parameter>& parameters) {
    std::vector<ParameterGroup> groups;
    for (const char* const factor : {"1.0", "0.0"}) {
        const auto of_kind = std::ranges::find_if(optimizer.groups, [&](const auto& group) {
            return setting(group.settings, "wd_mult", "1.0") == factor && !is_of_experts(group);
        });
        if (of_kind == optimizer.groups.end()) {
            return {one_group(optimizer, parameters)};
        }
        ParameterGroup group{settings_for_torch(*of_kind), {}};
        for (const Parameter& one : parameters) {
            const bool decays = one.n_dims > 1 && !one.name.ends_with(".bias");
            if (decays == (std::string_view(factor) == "1.0")) {
                group.parameters.push_back(one.name);
            }
        }
        groups.push_back(std::move(group));
    }
    return groups;
}

}  // namespace

PlainValue plain_value(const std::string& json_text) {
    return plain(json::parse(json_text));
}

PlainValue plain_dictionary(const Settings& settings) {
    std::vector<PlainValue::Entry> entries;
    for (const auto& [name, json_text] : settings) {
        entries.push_back({name, plain_value(json_text)});
    }
    return dictionary(std::move(entries));
}

PlainValue megatron_optimizer(const OptimizerToWrite& optimizer, bool has_experts) {
    std::vector<ParameterGroup> dense = megatron_groups(optimizer, has_experts);
    const auto of_experts =
        std::stable_partition(dense.begin(), dense.end(),
                              [](const ParameterGroup& group) { return !is_of_experts(group); });
    const std::vector<ParameterGroup> experts(of_experts, dense.end());
    dense.erase(of_experts, dense.end());
    if (experts.empty() || dense.empty()) {
        return optimizer_of(dense.empty() ? experts : dense);
    }
    PlainValue all;
    all.kind = PlainValue::Kind::numbered;
    all.items = {optimizer_of(dense), optimizer_of(experts)};
    return all;
}

PlainValue megatron_scheduler(const OptimizerToWrite& optimizer) {
    if (optimizer.scheduler.contains("num_steps")) {
        return plain_dictionary(optimizer.scheduler);
    }
    const Settings settings = first_settings(optimizer);
    const std::string decay = setting(settings, "weight_decay", "0.0");
    const char* const constant = R"("constant")";
    return plain_dictionary({{"max_lr", peak_rate(settings)},
                             {"min_lr", "0.0"},
                             {"num_steps", "0"},
                             {"lr_warmup_steps", "0"},
                             {"lr_decay_steps", "1"},
                             {"lr_decay_style", constant},
                             {"start_wd", decay},
                             {"end_wd", decay},
                             {"wd_incr_steps", "1"},
                             {"wd_incr_style", constant}});
}

std::vector<ParameterGroup> torch_groups(const OptimizerToWrite& optimizer,
                                         const std::vector<Parameter>& parameters) {
    if (is_of_megatron(optimizer)) {
        return decayed_or_not(optimizer, parameters);
    }
    if (!names_all(optimizer.groups, parameters)) {
        return {one_group(optimizer, parameters)};
    }
    std::vector<ParameterGroup> groups;
    for (const ParameterGroup& group : optimizer.groups) {
        groups.push_back({settings_for_torch(group), group.parameters});
    }
    return groups;
}

std::vector<ParameterGroup> numbered_groups(const OptimizerToWrite& optimizer,
                                            std::vector<Parameter> parameters) {
    if (!is_of_megatron(optimizer) && names_all(optimizer.groups, parameters)) {
        return torch_groups(optimizer, parameters);
    }
    const ModuleOrder order(optimizer.family);
    if (!order.is_known()) {
        throw Error(ErrorCode::unsupported,
                    "an optimizer's file has numbers for parameters, and the order in which a " +
                        optimizer.family + " model registers them is not known",
                    "write --to dcp:world=N, which has their names, or the weights alone with "
                    "--state weights");
    }
    std::ranges::stable_sort(parameters, order, &Parameter::name);
    return {one_group(optimizer, parameters)};
}

PlainValue numbered_list(const std::vector<ParameterGroup>& groups) {
    std::vector<PlainValue> all;
    Index number = 0;
    for (const ParameterGroup& group : groups) {
        std::vector<PlainValue> members;
        for (std::size_t i = 0; i < group.parameters.size(); ++i) {
            members.push_back(integer(number++));
        }
        all.push_back(plain_dictionary(group.settings));
        all.back().entries.push_back({"params", list(std::move(members))});
    }
    return list(std::move(all));
}

PlainValue torch_scheduler(const OptimizerToWrite& optimizer) {
    const bool is_of_torch = optimizer.scheduler.contains("last_epoch");
    return is_of_torch ? plain_dictionary(optimizer.scheduler) : PlainValue();
}

}  // namespace shardweld::reshape

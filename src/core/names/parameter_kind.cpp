#include "parameter_kind.hpp"

#include <algorithm>
#include <numeric>

#include <nlohmann/json.hpp>

#include "core/lists.hpp"
#include "core/text.hpp"

#include "name_rules.hpp"

namespace shardweld {

namespace {

double number_in(const Settings& settings, const char* name, double otherwise) {
    auto* const found = find_value(settings, name);
    const auto value =
        found == nullptr ? nlohmann::json() : nlohmann::json::parse(*found, nullptr, false);
    return value.is_number() ? value.get<double>() : otherwise;
}

bool is_set(const Settings& settings, const char* name) {
    auto* const found = find_value(settings, name);
    return found != nullptr && *found == "true";
}

/// The module that the last part of a name is of: "lm_head" of "lm_head.weight".
std::string_view module_of(std::string_view name) {
    const std::string_view module = name.substr(0, std::max<std::size_t>(name.rfind('.'), 0));
    return module.substr(module.rfind('.') + 1);
}

}  // namespace

ParameterKind kind_of(const Settings& group) {
    return {is_set(group, "is_expert_parallel"), is_set(group, "is_decoupled_lr"),
            number_in(group, "wd_mult", 1) != 0};
}

ParameterKind kind_of(std::string_view name, std::size_t n_dims) {
    return {has_part(name, ".experts."),
            is_known_as(module_of(name), "module at the ends of a model"),
            n_dims > 1 && !name.ends_with("bias")};
}

std::vector<std::size_t> groups_of(const ParameterKind& kind,
                                   const std::vector<ParameterGroup>& groups) {
    std::vector<std::size_t> all(groups.size());
    std::iota(all.begin(), all.end(), 0U);
    for (bool ParameterKind::*const trait :
         {&ParameterKind::is_of_experts, &ParameterKind::is_decoupled, &ParameterKind::decays}) {
        auto alike = filter_list(all, [&](std::size_t group) {
            return kind_of(groups[group].settings).*trait == kind.*trait;
        });
        all = alike.empty() ? all : alike;
    }
    return all;
}

bool are_of_megatron(const std::vector<ParameterGroup>& groups) {
    return std::ranges::any_of(
        groups, [](const ParameterGroup& group) { return group.settings.contains("wd_mult"); });
}

}  // namespace shardweld

#include "optimizer_text.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/text.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

/// Names differ, and such an object would look each one up in all before it.
ordered_json settings_json(const catalogue::Settings& settings) {
    ordered_json::object_t object;
    for (const auto& [name, text] : settings) {
        object.push_back({name, ordered_json::parse(text)});
    }
    return object;
}

}  // namespace

std::string optimizer_text(const catalogue::Optimizer& optimizer, DType weights,
                           const std::vector<std::string>& without) {
    ordered_json json;
    json["optimizer"] = "adam";
    if (optimizer.step) {
        json["step"] = *optimizer.step;
    }
    json["weights"] = torch_name(weights);
    json["groups"] = ordered_json::array();
    for (const catalogue::ParameterGroup& group : optimizer.groups) {
        ordered_json one = settings_json(group.settings);
        if (!group.parameters.empty()) {
            one["params"] = group.parameters;
        }
        json["groups"].push_back(std::move(one));
    }
    if (!optimizer.scheduler.empty()) {
        json["scheduler"] = settings_json(optimizer.scheduler);
    }
    json["not_in_optimizer"] = without;
    if (!optimizer.form.empty()) {
        json["read_from"] = optimizer.form;
    }
    return json.dump(2) + "\n";
}

Warnings resting_on_order(const plan::Plan& plan,
                          const std::map<std::uint32_t, numeric::Census>& census) {
    std::vector<std::string> names;
    for (const auto& [at, found] : census) {
        const plan::Target& target = plan.target_of(at);
        const bool is_proved = std::ranges::any_of(
            target.replicas, [](const plan::Operand& one) { return one.own_type.has_value(); });
        if (found.is_constant && target.state.empty() && is_proved) {
            names.push_back(target.name);
        }
    }
    if (names.empty()) {
        return {};
    }
    return {{"optimizer_by_order", names.front(),
             counted(names.size(), "weight") +
                 " of one value everywhere: which states are theirs rests on the order of "
                 "parameters alone: " +
                 listed(names)}};
}

}  // namespace shardweld::app

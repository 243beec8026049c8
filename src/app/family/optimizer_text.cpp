#include "optimizer_text.hpp"

#include <nlohmann/json.hpp>

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

ordered_json json_of(const catalogue::Settings& settings) {
    ordered_json json = ordered_json::object();
    for (const auto& [name, text] : settings) {
        json[name] = ordered_json::parse(text);
    }
    return json;
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
        ordered_json one = json_of(group.settings);
        if (!group.parameters.empty()) {
            one["params"] = group.parameters;
        }
        json["groups"].push_back(std::move(one));
    }
    if (!optimizer.scheduler.empty()) {
        json["scheduler"] = json_of(optimizer.scheduler);
    }
    json["not_in_optimizer"] = without;
    if (!optimizer.form.empty()) {
        json["read_from"] = optimizer.form;
    }
    return json.dump(2) + "\n";
}

}  // namespace shardweld::app

#include "promises.hpp"

#include <algorithm>
#include <array>

#include "shardweld/core/config_fields.hpp"
#include "shardweld/core/text.hpp"

namespace shardweld::app {

namespace {

using Targets = std::vector<plan::Target>;

/// Towers that a recipe passes on, or that a family without one has.
void look_at_towers(const models::Config& config, const Targets& targets,
                    std::vector<plan::Warning>& out) {
    for (const Tower& tower : kTowers) {
        const bool is_there = std::ranges::any_of(
            targets, [&](const plan::Target& target) { return belongs_to(tower, target.name); });
        if (!is_there && !config.keys(tower.field).empty()) {
            out.push_back({"tower_missing", "",
                           "config.json describes the model's " + std::string(tower.name) + " (" +
                               std::string(tower.field) +
                               "), but no tensor of one is stored: it would be random"});
        }
    }
}

/// Of a family without a recipe: its layers are those that are stored.
void look_at_layers(const models::Config& config, const Targets& targets,
                    std::vector<plan::Warning>& out) {
    std::optional<Index> last;
    for (const plan::Target& target : targets) {
        last = std::max(last, stack_layer_of(target.name));
    }
    const auto layers = config.integer("num_hidden_layers");
    if (layers && last && *last + 1 < *layers) {
        out.push_back({"layers_missing", "",
                       "config.json counts " + std::to_string(*layers) +
                           " layers (num_hidden_layers), layers up to number " +
                           std::to_string(*last) + " are stored: the others would be random"});
    }
}

void look_at_experts(const models::Config& config, const Targets& targets,
                     std::vector<plan::Warning>& out) {
    constexpr std::array kFields = {"num_experts", "num_local_experts", "n_routed_experts",
                                    "moe_num_experts"};
    const bool is_there = std::ranges::any_of(targets, [](const plan::Target& target) {
        return target.name.find("expert") != std::string::npos;
    });
    for (const char* field : kFields) {
        const Index experts = is_there ? 0 : config.integer(field).value_or(0);
        if (experts > 1) {
            out.push_back({"experts_missing", "",
                           "config.json counts " + std::to_string(experts) + " experts (" + field +
                               "), but no tensor of one is stored"});
        }
    }
}

/// "module--Class" names another repository; "file.Class" a file of this one.
void look_at_code(const models::Config& config, const ModelFiles& files,
                  std::vector<plan::Warning>& out) {
    std::vector<std::string> missing;
    for (const std::string& key : config.keys("auto_map")) {
        const std::string text = config.text("auto_map." + key).value_or("");
        const std::string file = text.substr(0, text.find('.')) + ".py";
        if (!text.empty() && text.find("--") == std::string::npos &&
            std::ranges::count(files.assets, file, &publish::Asset::name) == 0 &&
            std::ranges::count(missing, file) == 0) {
            missing.push_back(file);
        }
    }
    if (!missing.empty()) {
        out.push_back(
            {"code_missing", "",
             "config.json names code of its own (auto_map) that does not lie beside it: " +
                 listed(missing) + "; copy it there from the model that was trained"});
    }
}

}  // namespace

std::vector<plan::Warning> broken_promises(const PreparedModel& prepared, const ModelFiles& files,
                                           const std::vector<plan::Target>& targets) {
    std::vector<plan::Warning> found;
    if (prepared.recipe->is_form || targets.empty()) {
        return found;
    }
    look_at_towers(prepared.config, targets, found);
    if (prepared.recipe->hub.empty()) {
        look_at_layers(prepared.config, targets, found);
        look_at_experts(prepared.config, targets, found);
    }
    look_at_code(prepared.config, files, found);
    return found;
}

}  // namespace shardweld::app

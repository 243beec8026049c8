// What a plan tells of the files that will stand beside the tensors, and of memory.
#include "../compare/model_directory.hpp"
#include "../family/lora.hpp"
#include "aftermath.hpp"
#include "main_path.hpp"

namespace shardweld::app {

publish::Facts Planned::facts() const {
    publish::Facts facts =
        publish::facts_of(plan.targets, model.bound.binding.logicals, *model.prepared.recipe);
    facts.to_token_classes = model.prepared.is_value;
    return facts;
}

std::string Planned::config_text() const {
    return publish::true_config(model.prepared.config, facts()).text_to_write();
}

std::optional<bool> Planned::ties() const {
    return ties_in(config_text(), model.files.config_path);
}

std::vector<publish::Asset> Planned::assets() const {
    std::vector<publish::Asset> assets;
    if (model.bound.has_model) {
        assets = side_files(model.files.assets, config_text(), plan.placement);
    }
    if (!model.bound.adapter_config.empty()) {
        assets.push_back({kAdapterConfig, {}, model.bound.adapter_config});
    }
    return assets;
}

MemoryForecast Planned::forecast(const mpi::Comm& comm) const {
    constexpr std::string_view kNoLibrary = "none";
    return forecast_memory(plan, input.meter.memory(), comm.library() != kNoLibrary);
}

}  // namespace shardweld::app

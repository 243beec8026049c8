#include "planned.hpp"

#include "app/compare/model_directory.hpp"
#include "app/family/bind_model.hpp"
#include "core/text.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/footprint.hpp"
#include "publish/quantisation_config.hpp"

namespace shardweld::app {

publish::Facts Output::facts() const {
    publish::Facts facts =
        publish::facts_of(plan.targets, model.bound.binding.logicals, *model.prepared.recipe);
    facts.predictions = model.bound.binding.n_predictions;
    facts.to_token_classes = model.prepared.is_value;
    const auto& made = model.bound.quantisation;
    if (made && !facts_of(made->encoding).is_ggml()) {
        facts.quantisation = publish::quantisation_config(made->encoding, made->kept);
    }
    return facts;
}

std::optional<bool> Output::ties() const {
    return ties_in(config_text, model.files.config_path);
}

std::string Output::dtype_note() const {
    const auto stated = publish::stated_dtype(model.prepared.config);
    const auto written = facts().dtype;
    if (!stated || !written || size_of(*written) <= size_of(*stated)) {
        return "";
    }
    const Bytes bytes = plan.placement.tensor_bytes;
    const Bytes ratio = size_of(*written) / size_of(*stated);
    return "config.json says " + std::string(torch_name(*stated)) + ", the checkpoint holds " +
           std::string(torch_name(*written)) +
           " (often a trainer's master weights): the output has " + human_bytes(bytes) +
           "; with --dtype " + std::string(torch_name(*stated)) + " about " +
           human_bytes(bytes / ratio);
}

std::vector<publish::Asset> Output::assets() const {
    std::vector<publish::Asset> assets;
    if (model.bound.has_model) {
        assets = model.files.assets;
        const publish::Facts written = facts();
        if (!written.is_quantised || !written.quantisation.empty()) {
            std::erase_if(assets, [](const publish::Asset& asset) {
                return publish::is_about_codes(asset.name);
            });
        }
        assets.push_back({"config.json", {}, config_text});
        for (const outputs::SideFile& file : plan.placement.side_files) {
            assets.push_back({file.name, {}, file.text});
        }
    }
    if (!model.bound.adapter_config.empty()) {
        assets.push_back({kAdapterConfig, {}, model.bound.adapter_config});
    }
    return assets;
}

MemoryForecast Planned::forecast(const mpi::Comm& comm, std::optional<int> ranks_on_node) const {
    constexpr std::string_view kNoLibrary = "none";
    MemoryForecast all =
        forecast_memory(first().plan, input.meter.memory(), comm.library() != kNoLibrary,
                        ranks_on_node.value_or(resources.ranks_on_node));
    for (const Output& one : outputs) {
        all.buffers += &one == &first() ? 0 : plan::writing_buffers(one.plan);
    }
    return all;
}

}  // namespace shardweld::app

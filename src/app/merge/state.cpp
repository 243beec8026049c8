#include "state.hpp"

#include <algorithm>
#include <string_view>

#include "app/binding/optimizer_text.hpp"
#include "app/binding/written_model.hpp"
#include "app/compare/model_directory.hpp"
#include "app/family/training_form.hpp"
#include "plan/schedule/footprint.hpp"

namespace shardweld::app {

publish::Facts Output::facts() const {
    return facts_of(model, plan.targets);
}

std::string Output::model_class() const {
    if (!model.has_model || config_text.empty()) {
        return "";
    }
    const auto config = models::Config::parse(config_text, model.files.config_path);
    const std::vector<std::string> classes = config.architectures();
    return classes.empty() ? "" : classes.front();
}

std::optional<bool> Output::ties() const {
    return ties_in(config_text, model.files.config_path);
}

bool Output::gets_card(const Job& job) const {
    return job.run.has_card && !asked().is_training() && model.has_model;
}

std::vector<publish::Asset> Output::assets() const {
    std::vector<publish::Asset> assets;
    if (model.has_model) {
        assets = model.files.assets;
        const publish::Facts known = facts();
        if (!known.is_quantised || !known.quantisation.empty()) {
            std::erase_if(assets, [](const publish::Asset& asset) {
                return publish::is_about_codes(asset.name);
            });
        }
        assets.push_back({"config.json", {}, config_text});
        if (model.training != nullptr) {
            for (publish::Asset& asset : assets) {
                asset.name = std::string(publish::kBesideShards) + asset.name;
            }
        }
        const auto& training = model.training;
        if (training != nullptr && training->like() != nullptr) {
            const auto& own = training->like()->assets;
            append_all(assets, own);
        }
        for (const outputs::SideFile& file : plan.placement.side_files) {
            assets.push_back({file.name, {}, file.text});
        }
        if (!model.optimizer_text.empty()) {
            assets.push_back({optimizer_file(training != nullptr), {}, model.optimizer_text});
        }
    }
    if (!model.adapter_config.empty()) {
        assets.push_back({kAdapterConfig, {}, model.adapter_config});
    }
    return assets;
}

std::vector<std::vector<std::size_t>> Merge::runs() const {
    std::vector<std::vector<std::size_t>> runs;
    std::optional<std::size_t> of_models;
    for (const std::size_t at : indices(outputs)) {
        const bool is_training = outputs[at].asked().is_training();
        if (!is_training && of_models) {
            runs[*of_models].push_back(at);
            continue;
        }
        if (!is_training) {
            of_models = runs.size();
        }
        runs.push_back({at});
    }
    return runs;
}

MemoryForecast Merge::forecast(const mpi::Comm& comm, std::optional<int> ranks_on_node) const {
    constexpr std::string_view kNoLibrary = "none";
    std::optional<MemoryForecast> most;
    for (const auto& run : runs()) {
        MemoryForecast all = forecast_memory(outputs.at(run.front()).plan, input.memory,
                                             comm.library() != kNoLibrary,
                                             ranks_on_node.value_or(resources().ranks_on_node));
        for (std::size_t at = 1; at < run.size(); ++at) {
            all.buffers += plan::writing_buffers(outputs[run[at]].plan);
        }
        most = !most || all.peak() > most->peak() ? all : most;
    }
    return *most;
}

bool Merge::writes_training() const {
    return std::ranges::any_of(outputs,
                               [](const Output& one) { return one.asked().is_training(); });
}

plan::JobPlan Merge::choice_for(const Job& job, const Resources& ranks) const {
    plan::JobPlan choice = job.run.plan;
    choice.digests = job.outputs.front().is_reported();
    choice.read_ahead = job.run.read_ahead.value_or(ranks.has_spare_core);
    if (job.run.striping && job.run.striping->size != 0) {
        choice.alignment = job.run.striping->size;
    }
    choice.step = ranks.cached_bytes;
    choice.memory_limit = job.run.memory_limit.value_or(ranks.memory_limit) /
                          ((halves_memory ? 2 : 1) * outputs.size());
    choice.records = input.sums ? &input.sums->records() : nullptr;
    return choice;
}

Merge begin_merge(const Run& run) {
    Merge merge;
    merge.halves_memory = run.job.model.base.has_value();
    for (OutputReport& output : run.report->outputs) {
        merge.outputs.push_back({output});
    }
    return merge;
}

Merge begin_comparison(const Run& run) {
    Merge merge = begin_merge(run);
    merge.is_written = false;
    merge.halves_memory = true;
    return merge;
}

}  // namespace shardweld::app

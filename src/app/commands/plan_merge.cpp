#include <optional>
#include <utility>

#include "shardweld/adapters/separate.hpp"
#include "shardweld/catalogue/records.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/plan/trace.hpp"

#include "../family/base_model.hpp"
#include "../family/lora.hpp"
#include "../family/model.hpp"
#include "../merge/aftermath.hpp"
#include "../runtime/memory_meter.hpp"
#include "../survey/survey.hpp"
#include "print_plan.hpp"

namespace shardweld::app {

namespace {

// Plans are for another machine: this one's limits say nothing.
constexpr Bytes kMemoryLimit = Bytes{256} << 20U;
// What a process without MPI says of it.
constexpr std::string_view kNoLibrary = "none";

/// What the ranks find out together.
struct Input {
    Survey survey;
    std::optional<formats::Location> base;
    ModelFiles files;
};

Input read_input(mpi::Comm& comm, const Options& options) {
    Input input{survey(comm, input_request(options)), std::nullopt, {}};
    if (is_base_of_adapter(options, input.survey.catalogue)) {
        Survey base = survey(comm, base_request(options));
        input.base = base.location;
        mpi::collectively(comm, [&] { add_base(input.survey, std::move(base)); });
    }
    input.files = share_model_files(comm, input.survey.home, [&] {
        const bool is_alone = is_adapter_alone(options, input.survey.catalogue);
        return read_model_files(options, {input.survey.location, input.base, !is_alone});
    });
    return input;
}

/// What is known beside the weights before a plan is made; the index and an adapter's settings come
/// with it.
std::vector<publish::Asset> assets_of(const Input& input) {
    if (adapters::holds_adapter_only(input.survey.catalogue)) {
        return {};
    }
    std::vector<publish::Asset> assets = input.files.assets;
    assets.push_back({"config.json", {}, input.files.config_text});
    return assets;
}

void add_text(const std::string& text, FilesBeside& beside) {
    beside.bytes += text.size();
    ++beside.n_files;
}

PlannedMerge plan_alone(Input input, FilesBeside beside, const Options& options, MemoryMeter meter,
                        bool has_mpi) {
    catalogue::Catalogue& catalogue = input.survey.catalogue;
    const PreparedModel prepared = prepare_model(input.files, options, catalogue);
    PlannedMerge merge;
    merge.beside = std::move(beside);
    merge.input = input.survey.location.directory.string();
    merge.format = catalogue.format;
    merge.recipe = prepared.recipe->name;
    merge.files = catalogue.files;
    if (!options.trace.empty()) {
        merge.trace = plan::trace_stored(catalogue, prepared.model(), options.trace);
    }
    for (const auto& [code, text] : catalogue.warnings) {
        merge.warnings.push_back({code, "", text});
    }
    const auto records = catalogue::records_of(catalogue);
    Bound bound = bind_model(prepared, input.files, options, std::move(catalogue));
    plan::Binding& binding = bound.binding;
    for (const plan::Target& factor : bound.factors) {
        merge.factor_bytes += factor.bytes();
    }
    if (!bound.adapter_config.empty()) {
        add_text(bound.adapter_config, merge.beside);
    }
    merge.warnings.insert(merge.warnings.end(), prepared.warnings.begin(), prepared.warnings.end());
    merge.warnings.insert(merge.warnings.end(), binding.warnings.begin(), binding.warnings.end());
    merge.ledger = std::move(binding.ledger);
    plan::Choice choice = plan_choice(options, {kMemoryLimit, has_spare_core(options.n_ranks)});
    choice.records = &records;
    merge.plan =
        plan::make_plan(std::move(binding.targets), merge.files,
                        plan::Visibility::everywhere(options.n_ranks, merge.files.size()), choice);
    const auto more = plan_warnings(merge.plan);
    merge.warnings.insert(merge.warnings.end(), more.begin(), more.end());
    for (const outputs::SideFile& file : merge.plan.placement.side_files) {
        add_text(file.text, merge.beside);
    }
    // A merge holds what is held here: the model's recipes, the checkpoint's files.
    meter.planned();
    merge.memory = forecast_memory(merge.plan, meter.memory(), has_mpi);
    if (!options.trace.empty()) {
        const auto written = plan::trace_target(merge.plan, merge.files, options.trace);
        merge.trace.insert(merge.trace.end(), written.begin(), written.end());
        if (merge.trace.empty()) {
            merge.trace.push_back("no tensor is called " + printable(options.trace));
        }
    }
    return merge;
}

}  // namespace

PlannedMerge plan_merge(mpi::Comm& comm, const Options& options) {
    const MemoryMeter meter;
    Input input = read_input(comm, options);
    PlannedMerge merge;
    if (options.has_target) {
        merge.beside = look_beside(comm, input.survey.home, [&] { return assets_of(input); });
    }
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            merge = plan_alone(std::move(input), std::move(merge.beside), options, meter,
                               comm.library() != kNoLibrary);
        }
    });
    return merge;
}

}  // namespace shardweld::app

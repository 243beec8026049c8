#include "planned.hpp"

#include <utility>

#include "app/compare/model_directory.hpp"
#include "app/family/bind_model.hpp"
#include "core/text.hpp"
#include "plan/bind/trace.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/footprint.hpp"
#include "publish/quantisation_config.hpp"

#include "tied.hpp"

namespace shardweld::app {

namespace {

/// That the output is wider than config.json says, with its size in that type; "" if it is not.
std::string dtype_note(const Output& output) {
    const auto stated = publish::stated_dtype(output.model.prepared.config);
    const auto written = output.facts().dtype;
    if (!stated || !written || size_of(*written) <= size_of(*stated)) {
        return "";
    }
    const Bytes bytes = output.plan.placement.tensor_bytes;
    const Bytes ratio = size_of(*written) / size_of(*stated);
    return "config.json says " + std::string(torch_name(*stated)) + ", the checkpoint holds " +
           std::string(torch_name(*written)) +
           " (often a trainer's master weights): the output has " + human_bytes(bytes) +
           "; with --dtype " + std::string(torch_name(*stated)) + " about " +
           human_bytes(bytes / ratio);
}

std::vector<std::string> whole_trace(std::vector<std::string> trace, const plan::Plan& plan,
                                     const std::vector<catalogue::File>& files,
                                     const std::string& name) {
    const auto written = plan::trace_target(plan, files, name);
    trace.insert(trace.end(), written.begin(), written.end());
    if (trace.empty()) {
        trace.push_back("no tensor is called " + printable(name));
    }
    return trace;
}

Output make_output(const Session& session, const PlanRequest& request, Planned& planned,
                   BoundModel model, plan::PlanChoice choice) {
    Output output{session, std::move(model), {}, {}, std::move(choice), {}};
    const std::vector<catalogue::File>& files = planned.input.files;
    Bound& bound = output.model.bound;
    if (bound.output != nullptr) {
        output.choice.output_format = bound.output.get();
    }
    const plan::Visibility visibility =
        request.ranks ? plan::Visibility::everywhere(request.ranks->n_ranks, files.size())
                      : planned.input.visibility;
    const auto plan = [&](std::vector<plan::Target> targets, plan::Replicas replicas) {
        plan::PlanChoice how = output.choice;
        how.replicas = replicas;
        return mpi::collectively_get(session.comm, [&] {
            return plan::make_plan(std::move(targets), files, visibility, how);
        });
    };
    output.plan = plan(std::move(bound.binding.targets), output.choice.replicas);
    if (!bound.factors.empty()) {
        planned.factors = plan(std::move(bound.factors), plan::Replicas::verify);
    }
    if (bound.quantisation && !bound.quantisation->measured.empty()) {
        // Replicas are compared when the weights are written.
        output.measured = plan(std::move(bound.quantisation->measured), plan::Replicas::trust);
    }
    if (const std::string& name = session.options.trace; !name.empty() && planned.outputs.empty()) {
        planned.trace = whole_trace(std::move(output.model.trace), output.plan, files, name);
    }
    warn(session, sampling_warnings(output.plan));
    return output;
}

/// config.json, true of what will be written.
void settle_config(Output& output) {
    const auto [config, notes] = publish::true_config(output.model.prepared.config, output.facts());
    output.config_text = config.text_to_write();
    for (const std::string& note : notes) {
        output.session.log.info(note);
    }
}

/// Bypasses the log level: who asks for a trace wants it.
void tell_trace(Session& session, const Planned& planned) {
    if (session.comm.rank() == 0) {
        for (const std::string& line : planned.trace) {
            session.log.trace(printable(line));
        }
    }
    session.watch.lap("plan");
}

void say_plan(const Session& session, const plan::Plan& plan) {
    session.log.info("writing " + human_bytes(plan.placement.tensor_bytes) + ": " +
                     counted(plan.targets.size(), "tensor") + " in " +
                     counted(plan.placement.files.size(), "file") + " by " +
                     counted(static_cast<std::size_t>(session.comm.size()), "rank") + ", " +
                     std::string(plan::name_of(plan.strategy)) + " (" + plan.why + ")");
}

}  // namespace

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

plan::PlanChoice choice_for(const Outputs& outputs, const PlanRequest& request, const Input& input,
                            const Resources& resources) {
    plan::PlanChoice choice = plan_choice(outputs.front().options, resources);
    choice.memory_limit /= (request.halves_memory ? 2 : 1) * outputs.size();
    choice.records = input.sums ? &input.sums->records() : nullptr;
    return choice;
}

Planned plan_models(const Outputs& outputs, const PlanRequest& request, SurveyedSources read,
                    std::vector<BoundModel> models, const Resources& resources,
                    const std::optional<HostGroups>& hosts) {
    Session session = outputs.front();
    Planned planned;
    planned.input = std::move(read.input);
    planned.holds_adapter_only = read.holds_adapter_only;
    planned.resources = request.ranks ? request.ranks->resources : resources;
    plan::PlanChoice choice = choice_for(outputs, request, planned.input, planned.resources);
    if (hosts) {
        planned.input.visibility.group_of_rank = hosts->group_of_rank;
        planned.input.home = hosts->leaders[static_cast<std::size_t>(planned.input.home)];
    }
    for (std::size_t at = 0; at < outputs.size(); ++at) {
        planned.outputs.push_back(
            make_output(outputs[at], request, planned, std::move(models[at]), choice));
        settle_config(planned.outputs.back());
        choice.replicas = plan::Replicas::trust;  // they are compared when the first is made
    }
    planned.input.meter.planned();
    tell_trace(session, planned);
    return planned;
}

Planned plan_as_stored(Session& session, const PlanRequest& request, Input input,
                       std::vector<plan::Target> targets) {
    if (input.is_checked) {
        input.sums->want(targets);
    }
    BoundModel model;
    model.bound.binding.targets = std::move(targets);
    Planned planned;
    planned.input = std::move(input);
    planned.outputs.push_back(
        make_output(session, request, planned, std::move(model),
                    choice_for({session}, request, planned.input, shared_resources(session.comm))));
    planned.input.meter.planned();
    return planned;
}

void report_plans(const Planned& planned) {
    const Session& session = planned.first().session;
    if (session.comm.rank() != 0) {
        return;
    }
    describe_strategy(session.run, planned.first().plan);
    for (const Output& one : planned.outputs) {
        describe_plan(one.session.report, one.plan, planned.input.files);
    }
}

void say_plans(const Planned& planned) {
    for (const Output& output : planned.outputs) {
        say_plan(output.session, output.plan);
    }
    const Session& session = planned.first().session;
    const bool is_told = session.log.is_speaker() && !session.output.dtype;
    const std::string note = is_told ? dtype_note(planned.first()) : "";
    if (!note.empty()) {
        session.log.info(note);
    }
}

}  // namespace shardweld::app

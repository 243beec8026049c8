#include "main_path.hpp"

#include <algorithm>
#include <utility>

#include "adapters/separate.hpp"
#include "app/family/bind_model.hpp"
#include "app/family/framework_adapter.hpp"
#include "app/runtime/memory.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "plan/bind/trace.hpp"
#include "plan/plan.hpp"

#include "bound_model.hpp"
#include "mixed_model.hpp"
#include "node_planning.hpp"
#include "tied.hpp"

namespace shardweld::app {

namespace {

/// A checkpoint's metadata, which move into a binding, and all that stays.
struct ReadCheckpoint {
    Survey survey;
    std::optional<formats::Location> base;  ///< --base, of an adapter
    bool holds_adapter_only = false;
    std::vector<SurveyedCheckpoint> others;  ///< that are mixed into it
    Input input;
};

ReadCheckpoint survey_checkpoint(Session& session, Sources& sources, Destination sink) {
    const MemoryMeter meter;
    const Options& options = session.options;
    ReadCheckpoint read{read_shown(session, std::move(sources.checkpoint)), {}, false, {}, {}};
    read.holds_adapter_only = adapters::holds_adapter_only(read.survey.catalogue);
    if (is_base_of_adapter(options, sink, read.survey.catalogue)) {
        Survey base = read_shown(session, std::move(sources.base).value(), " of the base");
        read.base = base.location;
        mpi::collectively(session.comm, [&] { add_base(read.survey, std::move(base)); });
    }
    read.others = survey_others(session, std::move(sources.others), read.survey);
    std::vector<const Survey*> behind;
    for (const SurveyedCheckpoint& other : read.others) {
        behind.push_back(&other.survey);
    }
    read.input = input_of(read.survey, meter, options.check_crc == CheckCrc::during, behind);
    return read;
}

/// What speaks for it fills lines: the report and `inspect` have it. What is not known at all is a
/// warning.
void tell_provenance(Log& log, const catalogue::Provenance& provenance) {
    if (provenance.standing == catalogue::Standing::proved) {
        log.info("provenance proved: every file says which rank and which save it belongs to");
    } else if (provenance.standing == catalogue::Standing::consistent) {
        log.info(
            "provenance consistent: what files say of their rank and save agrees, but not every "
            "file says both");
    }
    log.debug("provenance " + catalogue::text_of(provenance));
}

void report_survey(Session& session, const ReadCheckpoint& read) {
    const catalogue::Catalogue& catalogue = read.survey.catalogue;
    for (const std::string& note : catalogue.notes) {
        session.log.info(note);
    }
    session.log.info(
        "read the metadata of " + std::to_string(catalogue.files.size()) + " shard files: " +
        std::to_string(catalogue.tensors.size() + catalogue.shards.size()) + " stored tensors");
    tell_provenance(session.log, read.survey.provenance);
    for (const auto& [code, text] : catalogue.warnings) {
        warn(session, plan::Warning{code, "", text});
    }
    describe_input(session.report, read.input.directory, catalogue);
    session.report.provenance = read.survey.provenance;
    session.report.metadata_reads = read.input.n_reads;
    session.watch.lap("survey");
}

/// Before the metadata of module trees are read nobody knows whether they are an adapter's alone,
/// which needs no model's files.
ModelFiles early_files(Session& session, const FoundCheckpoint& found, Destination sink) {
    const formats::Format& format = formats::format_of(found.location);
    return mpi::share(session.comm, found.home, [&] {
        const bool is_needed = needs_recipe(format);
        ModelFiles files =
            read_model_files(session.options, {found.location, std::nullopt, is_needed});
        check_model_files(files, is_needed);
        if (is_needed && sink == Destination::model) {
            require_readable(files);
        }
        return files;
    });
}

/// Without the tokenizer's directory where the run says that no model could use what is there.
formats::Location with_own_tokenizer(const Survey& survey) {
    formats::Location location = survey.location;
    if (survey.catalogue.facts.contains(formats::kForeignTokenizer)) {
        location.tokenizer_directory.reset();
    }
    return location;
}

/// The files, now that it is known which are needed.
ModelFiles settled_files(Session& session, const ReadCheckpoint& read,
                         std::optional<ModelFiles> early, const PlanRequest& request, Lora lora) {
    const bool is_needed = !is_adapter_alone(lora, read.survey.catalogue);
    const formats::Location location = with_own_tokenizer(read.survey);
    const bool is_known = early && location.tokenizer_directory.has_value() ==
                                       read.survey.location.tokenizer_directory.has_value();
    const auto settle = [&] {
        ModelFiles files =
            is_known ? std::move(*early)
                     : read_model_files(session.options, {location, read.base, is_needed});
        if (is_needed) {
            require_config(files, session.options, read.survey.location);
        }
        if (is_needed && request.sink == Destination::model) {
            require_readable(files);
        }
        return files;
    };
    return mpi::share(session.comm, read.input.home, settle);
}

/// What plans are chosen by where ranks have these resources.
plan::PlanChoice choice_for(const Outputs& outputs, const PlanRequest& request, const Input& input,
                            const Resources& resources) {
    plan::PlanChoice choice = plan_choice(outputs.front().options, resources);
    choice.memory_limit /= (request.halves_memory ? 2 : 1) * outputs.size();
    choice.records = input.sums ? &input.sums->records() : nullptr;
    return choice;
}

void report_binding(Session& session, const BoundModel& model) {
    for (const std::string& note : model.prepared.notes) {
        session.log.info(note);
    }
    for (const std::string& note : model.bound.notes) {
        session.log.info(note);
    }
    session.report.recipe = model.prepared.recipe->name;
    session.report.verification = model.prepared.verification;
    warn(session, model.prepared.warnings);
    warn(session, model.bound.binding.warnings);
    session.report.ledger = model.bound.binding.ledger;
    session.watch.lap("bind");
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

Output make_output(Session& session, const PlanRequest& request, Planned& planned, BoundModel model,
                   plan::PlanChoice choice) {
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
    if (!session.options.trace.empty()) {
        planned.trace =
            whole_trace(std::move(output.model.trace), output.plan, files, session.options.trace);
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

/// `hosts`: of the ranks that move tensors, where these are more than the session's.
Planned plan_here(Outputs outputs, const PlanRequest& request, Sources sources,
                  const Resources& resources, const BetweenSteps& between_steps,
                  const std::optional<HostGroups>& hosts = {}) {
    Session& session = outputs.front();
    between_steps(session.comm);
    ReadCheckpoint read = survey_checkpoint(session, sources, request.sink);
    report_survey(session, read);
    between_steps(session.comm);
    const ModelChoice wanted = model_choice(session.options, request.sink);
    ModelFiles files = settled_files(session, read, std::move(sources.files), request, wanted.lora);
    plan::PlanChoice choice = choice_for(outputs, request, read.input, resources);
    BoundModel model = bind_checkpoint(session, read.input, std::move(files), wanted,
                                       std::move(read.survey.catalogue), choice);
    if (!read.others.empty()) {
        model = mix_in(session, read.input, std::move(model), std::move(read.others), choice);
    }
    std::vector<BoundModel> models = mpi::collectively_get(
        session.comm, [&] { return output_models(outputs, std::move(model)); });
    report_binding(session, models.front());
    between_steps(session.comm);
    Planned planned;
    planned.input = std::move(read.input);
    planned.holds_adapter_only = read.holds_adapter_only;
    planned.resources = request.ranks ? request.ranks->resources : resources;
    choice = choice_for(outputs, request, planned.input, planned.resources);
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
    between_steps(session.comm);
    return planned;
}

}  // namespace

Sources find_sources(Session& session, const PlanRequest& request) {
    const Options& options = session.options;
    Sources sources{find_shown(session, input_request(options)), find_others(session), {}, {}};
    if (options.base) {
        sources.base = find_shown(session, base_request(options), " of the base");
    } else {
        sources.files = early_files(session, sources.checkpoint, request.sink);
    }
    return sources;
}

Planned plan_outputs(const Outputs& outputs, const PlanRequest& request, Sources sources,
                     const BetweenSteps& between_steps) {
    Session session = outputs.front();
    check_sums_shown(session, sources.checkpoint);
    if (sources.base) {
        check_sums_shown(session, *sources.base);
    }
    for (OtherCheckpoint& other : sources.others) {
        check_sums_shown(session, other.found);
    }
    const Resources resources = shared_resources(session.comm);
    if (!plans_once_a_node(outputs, request, sources)) {
        return plan_here(outputs, request, std::move(sources), resources, between_steps);
    }
    const HostGroups hosts = sources.checkpoint.visibility.hosts();
    const NodePlanning once(session, request, sources);
    Planned planned;
    mpi::collectively_in_steps(session.comm, [&](const mpi::OnStep& step) {
        if (once.is_planner()) {
            once.leave_to_planners(sources);
            step();
            planned = plan_here({once.session_of_planners()}, request, std::move(sources),
                                resources, between_steps, hosts);
        }
    });
    (void)Sources(std::move(sources));  // is not needed any more
    once.hand_over(planned);
    if (!once.is_planner()) {
        planned.resources = request.ranks ? request.ranks->resources : resources;
        planned.first().choice = choice_for(outputs, request, planned.input, planned.resources);
        session.watch.lap("plan");
    }
    between_steps(session.comm);
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

void report_plan(const Planned& planned) {
    for (const Output& one : planned.outputs) {
        if (one.session.comm.rank() == 0) {
            describe_plan(one.session.report, one.plan, planned.input.files);
        }
    }
}

}  // namespace shardweld::app

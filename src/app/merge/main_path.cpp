#include "main_path.hpp"

#include <utility>

#include "shardweld/adapters/separate.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/execute/rates.hpp"
#include "shardweld/plan/cost.hpp"
#include "shardweld/plan/trace.hpp"

#include "../family/base_model.hpp"
#include "../family/lora.hpp"
#include "../runtime/resources.hpp"
#include "../survey/record_check.hpp"
#include "aftermath.hpp"
#include "tied.hpp"

namespace shardweld::app {

namespace {

/// A checkpoint, and the base of one that holds an adapter alone.
struct Surveyed {
    Survey survey;
    std::optional<formats::Location> base = {};  ///< --base, of an adapter
    bool holds_adapter_only = false;
};

/// A checkpoint's metadata, which move into a binding, and all that stays.
struct Found {
    formats::Location location;
    std::optional<formats::Location> base;
    catalogue::Catalogue catalogue;
    catalogue::Provenance provenance;
    Input input;
};

Surveyed survey_all(Session& session, Sink sink) {
    mpi::Comm& comm = session.comm;
    Surveyed found{survey(comm, input_request(session.options))};
    found.holds_adapter_only = adapters::holds_adapter_only(found.survey.catalogue);
    if (is_base_of_adapter(session.options, sink, found.survey.catalogue)) {
        Survey base = survey(comm, base_request(session.options));
        found.base = base.location;
        mpi::collectively(comm, [&] { add_base(found.survey, std::move(base)); });
    }
    return found;
}

bool shares_embeddings(const catalogue::Catalogue& catalogue) {
    const auto shared = catalogue.facts.find("shared_embeddings");
    return shared != catalogue.facts.end() && shared->second == 1;
}

Found survey_checkpoint(Session& session, Sink sink) {
    const MemoryMeter meter;
    Surveyed found = survey_all(session, sink);
    Survey& survey = found.survey;
    const fs::path directory = survey.location.directory;
    Input input{directory,
                survey.catalogue.files,
                std::move(survey.visibility),
                std::move(survey.stamps),
                std::move(survey.digests),
                survey.home,
                found.holds_adapter_only,
                shares_embeddings(survey.catalogue),
                record_sums(directory, survey.catalogue),
                throttle_of(session.options, session.comm),
                meter};
    return {std::move(survey.location), std::move(found.base), std::move(survey.catalogue),
            std::move(survey.provenance), std::move(input)};
}

void tell(Session& session, const Found& found) {
    const catalogue::Catalogue& catalogue = found.catalogue;
    for (const std::string& note : catalogue.notes) {
        session.log.info(note);
    }
    session.log.info(
        "read the metadata of " + std::to_string(catalogue.files.size()) + " shard files: " +
        std::to_string(catalogue.tensors.size() + catalogue.shards.size()) + " stored tensors");
    session.log.info("provenance " + catalogue::text_of(found.provenance));
    for (const auto& [code, text] : catalogue.warnings) {
        warn(session, plan::Warning{code, "", text});
    }
    describe_input(session.report, found.input.directory, catalogue);
    session.report.provenance = found.provenance;
    session.watch.lap("survey");
}

ModelFiles share_files(Session& session, const Found& found, Lora lora) {
    return mpi::share(session.comm, found.input.home, [&] {
        const bool is_alone = is_adapter_alone(lora, found.catalogue);
        return read_model_files(session.options, {found.location, found.base, !is_alone});
    });
}

/// What plans are chosen by where ranks have these resources.
plan::Choice choice_for(const Session& session, const Terms& terms, const Input& input,
                        const Resources& resources) {
    plan::Choice choice = plan_choice(session.options, resources);
    choice.memory_limit /= terms.halves_memory ? 2 : 1;
    choice.records = &input.sums->records();
    return choice;
}

BoundModel bind(Session& session, const Input& input, ModelFiles files, const ModelChoice& choice,
                catalogue::Catalogue catalogue) {
    const std::string& trace = session.options.trace;
    BoundModel model{std::move(files), {}, {}, {}};
    mpi::collectively(session.comm, [&] {
        model.prepared = prepare_model(model.files, choice, catalogue);
        if (!trace.empty()) {
            model.trace = plan::trace_stored(catalogue, model.prepared.model(), trace);
        }
        model.bound =
            bind_model(model.prepared, model.files, session.options, std::move(catalogue));
    });
    input.sums->want(model.bound.binding.targets);
    input.sums->want(model.bound.factors);
    return model;
}

std::string text_of(const Untied& untied) {
    return untied.stored_name + " differs from " + untied.target + " in " +
           std::to_string(untied.n_elements) + " elements, though the model ties them";
}

/// Plain tensors of which nothing tells the shape, and that are no replicas.
void require_known_shape(const Untied& untied) {
    if (untied.why == plan::SamePair::Why::presumed) {
        throw Error(ErrorCode::mismatch,
                    untied.stored_name + " is a plain tensor that differs between ranks in " +
                        std::to_string(untied.n_elements) +
                        " elements, and no recipe tells its shape: if the ranks hold shards of dim "
                        "0, say so with --mesh_dim_names fsdp --mesh_shape N");
    }
}

/// Both are kept, unless the checkpoint itself says that they are one. Its metadata are in the
/// other binding already: that they are read again is cheaper than to keep them in every run.
BoundModel bind_untied(Session& session, Sink sink, const Input& input, BoundModel tied,
                       const Untied& untied) {
    const std::string text = text_of(untied);
    if (input.shares_embeddings) {
        throw Error(ErrorCode::mismatch,
                    text + " and the training job shared them: the checkpoint contradicts itself");
    }
    ModelFiles files = std::move(tied.files);
    ModelChoice choice = tied.prepared.choice;
    tied = {};
    models::Config config = models::Config::parse(files.config_text, files.config_path);
    config.set("tie_word_embeddings", "false");
    files.config_text = config.text_to_write();
    choice.is_tied = false;
    BoundModel model =
        bind(session, input, std::move(files), choice, survey_all(session, sink).survey.catalogue);
    warn(session,
         plan::Warning{
             "tied_differs", untied.stored_name,
             text + ": both are written and config.json's tie_word_embeddings is set to false"});
    return model;
}

/// Copies that must equal another tensor are compared with it, by the ranks that are here.
BoundModel resolve_ties(Session& session, Sink sink, const Input& input, BoundModel model,
                        const plan::Choice& choice) {
    const auto untied = compare_same(session.comm, model.bound.binding, source_of(session, input),
                                     input.visibility, choice);
    if (untied.empty()) {
        return model;
    }
    check_what_was_read(session, input, {});
    for (const Untied& one : untied) {
        require_known_shape(one);
    }
    return bind_untied(session, sink, input, std::move(model), untied.front());
}

void tell(Session& session, const BoundModel& model) {
    for (const std::string& note : model.prepared.notes) {
        session.log.info(note);
    }
    for (const std::string& note : model.bound.notes) {
        session.log.info(note);
    }
    warn(session, model.prepared.warnings);
    warn(session, model.bound.binding.warnings);
    session.report.ledger = model.bound.binding.ledger;
    session.watch.lap("bind");
}

/// Where the ranks that are here may choose and much is to be read, a short measurement tells what
/// reading and sending cost.
std::function<double(const plan::Plan&)> measured_cost(Session& session, const Input& input,
                                                       const std::vector<plan::Target>& targets,
                                                       const plan::Choice& choice) {
    constexpr Bytes kWorthwhile = Bytes{256} << 20U;
    const int n_ranks = session.comm.size();
    Bytes total = 0;
    for (const plan::Target& target : targets) {
        total += target.bytes();
    }
    if (choice.strategy != plan::Strategy::automatic || n_ranks == 1 ||
        choice.spares_ranks(n_ranks) || total < kWorthwhile) {
        return {};
    }
    const plan::Rates rates =
        execute::measure_rates(session.comm, source_of(session, input), input.visibility);
    session.watch.lap("measure");
    return [rates](const plan::Plan& plan) {
        return plan::seconds_of(plan::traffic_of(plan), rates, plan.is_lockstep);
    };
}

std::vector<std::string> whole_trace(std::vector<std::string> trace, const plan::Plan& plan,
                                     const std::vector<catalogue::File>& files,
                                     const std::string& name) {
    if (name.empty()) {
        return {};
    }
    const auto written = plan::trace_target(plan, files, name);
    trace.insert(trace.end(), written.begin(), written.end());
    if (trace.empty()) {
        trace.push_back("no tensor is called " + printable(name));
    }
    return trace;
}

Planned make_plans(Session& session, const Terms& terms, Input input, BoundModel model,
                   plan::Choice choice) {
    Planned planned{std::move(input), std::move(model), {}, {}, std::move(choice), {}};
    const std::vector<catalogue::File>& files = planned.input.files;
    Bound& bound = planned.model.bound;
    if (!terms.crew) {
        planned.choice.cost =
            measured_cost(session, planned.input, bound.binding.targets, planned.choice);
    }
    const plan::Visibility visibility =
        terms.crew ? plan::Visibility::everywhere(terms.crew->n_ranks, files.size())
                   : planned.input.visibility;
    planned.plan = mpi::collectively_get(session.comm, [&] {
        return plan::make_plan(std::move(bound.binding.targets), files, visibility, planned.choice);
    });
    if (!bound.factors.empty()) {
        plan::Choice all = planned.choice;
        all.replicas = plan::Replicas::verify;
        planned.factors = mpi::collectively_get(session.comm, [&] {
            return plan::make_plan(std::move(bound.factors), files, visibility, all);
        });
    }
    planned.trace =
        whole_trace(std::move(planned.model.trace), planned.plan, files, session.options.trace);
    warn(session, plan_warnings(planned.plan));
    planned.input.meter.planned();
    return planned;
}

/// Bypasses the log level: who asks for a trace wants it.
void tell(Session& session, const Planned& planned) {
    if (session.comm.rank() == 0) {
        for (const std::string& line : planned.trace) {
            session.log.stream() << "trace: " << printable(line) << '\n';
        }
    }
    session.watch.lap("plan");
}

}  // namespace

execute::Source source_of(const Session& session, const Input& input) {
    execute::Source source{input.directory,
                           &input.files,
                           session.options.max_open,
                           input.throttle,
                           {},
                           &input.stamps,
                           session.options.check_crc == CheckCrc::during ? input.sums : nullptr};
    if (session.log.is_kept()) {
        source.on_open = [&log = session.log](const fs::path& file) {
            log.note("opens " + printable(file.string()));
        };
    }
    return source;
}

void check_what_was_read(Session& session, const Input& input, const mpi::WhyStop& why_stop) {
    const execute::Source source = source_of(session, input);
    if (source.sums) {
        session.report.crc =
            execute::check_records(session.comm, *input.sums, source, input.visibility,
                                   execute::Completion::cheap, why_stop);
    }
}

Planned make_ready(Session& session, const Terms& terms,
                   const std::function<void()>& between_steps) {
    between_steps();
    Found found = survey_checkpoint(session, terms.sink);
    tell(session, found);
    between_steps();
    const ModelChoice wanted = model_choice(session.options, terms.sink);
    ModelFiles files = share_files(session, found, wanted.lora);
    plan::Choice choice = choice_for(session, terms, found.input, shared_resources(session.comm));
    BoundModel model =
        bind(session, found.input, std::move(files), wanted, std::move(found.catalogue));
    model = resolve_ties(session, terms.sink, found.input, std::move(model), choice);
    tell(session, model);
    between_steps();
    if (terms.crew) {
        choice = choice_for(session, terms, found.input, terms.crew->resources);
    }
    Planned planned =
        make_plans(session, terms, std::move(found.input), std::move(model), std::move(choice));
    tell(session, planned);
    between_steps();
    return planned;
}

void report_plan(Session& session, const Planned& planned) {
    if (session.comm.rank() == 0) {
        describe_plan(session.report, planned.plan, planned.input.files);
    }
}

}  // namespace shardweld::app

#include "planned.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "app/compare/model_directory.hpp"
#include "app/family/bind_model.hpp"
#include "app/family/optimizer_text.hpp"
#include "app/family/training_form.hpp"
#include "app/family/written_model.hpp"
#include "app/report/summary.hpp"
#include "core/codec.hpp"
#include "core/shared_heap.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "outputs/format.hpp"
#include "plan/bind/trace.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/footprint.hpp"
#include "plan/schedule/plan_transfer.hpp"
#include "publish/config_edits.hpp"
#include "shardweld/error.hpp"

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
                   BoundModel model, const plan::PlanChoice& choice) {
    Output output{session, std::move(model), {}, {}, choice, {}};
    const std::vector<catalogue::File>& files = planned.input.files;
    Bound& bound = output.model.bound;
    if (bound.output != nullptr) {
        output.choice.output_format = bound.output.get();
    }
    const plan::Visibility visibility =
        request.n_ranks > 0 ? plan::Visibility::everywhere(request.n_ranks, files.size())
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
    if (!bound.normalised.empty()) {
        planned.norms = plan(std::move(bound.normalised), plan::Replicas::trust);
    }
    if (bound.quantisation && !bound.quantisation->measured.empty()) {
        // Replicas are compared when the weights are written.
        output.measured = plan(std::move(bound.quantisation->measured), plan::Replicas::trust);
    }
    if (const std::string& name = session.job.run.trace; !name.empty() && planned.outputs.empty()) {
        planned.trace = whole_trace(std::move(output.model.trace), output.plan, files, name);
    }
    warn(session, sampling_warnings(output.plan));
    return output;
}

/// config.json, true of what will be written.
void settle_config(Output& output) {
    if (output.model.prepared.training != nullptr) {
        output.config_text = output.model.prepared.config.text_to_write();  // of the model it holds
        return;
    }
    const auto [config, notes] = publish::true_config(output.model.prepared.config, output.facts());
    output.config_text = config.text_to_write();
    for (const std::string& note : notes) {
        if (output.model.bound.has_model) {
            output.session.log.info("note: " + note);
        }
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
    session.log.debug("writing " + human_bytes(plan.placement.tensor_bytes) + ": " +
                      counted(plan.tensors.size(), "tensor") + " in " +
                      counted(plan.placement.files.size(), "file") + " by " +
                      counted(static_cast<std::size_t>(session.comm.size()), "rank") + ", " +
                      std::string(plan::name_of(plan.strategy)) + " (" + plan.why + ")");
}

/// A plan, but for its format, which is another value in each process.
struct HandedPlan {
    std::optional<plan::Plan> plan;
    std::size_t format = 0;  ///< of all formats, one that makes its files when they are placed
};

/// What is large of what ranks need while they move tensors: once on a node where that can be done.
/// The planner has it like those beside it.
struct Handed {
    std::vector<catalogue::File> files;
    std::vector<io::FileStamp> stamps;
    catalogue::Records records;
    std::vector<std::string> tensors;  ///< that the records name
    std::vector<execute::RecordSums::RecordUse> uses;
    std::vector<HandedPlan> plans;  ///< factors, and of each output what is measured and its own
};

/// What else the ranks beside a planner need of an output.
struct RestOfOutput {
    std::string config_path;
    std::string config_text;
    bool is_value = false;
    std::vector<std::uint32_t> shares;  ///< NVFP4
    std::vector<Warning> warnings;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.config_path, self.config_text, self.is_value, self.shares,
                        self.warnings);
    };
};

/// What else they need.
struct Rest {
    fs::path directory;
    plan::Visibility visibility;
    int home = 0;
    bool is_checked = false;
    bool holds_adapter_only = false;
    std::vector<RestOfOutput> outputs;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.directory, self.visibility, self.home, self.is_checked,
                        self.holds_adapter_only, self.outputs);
    };
};

Rest rest_of(const Planned& planned) {
    const Input& input = planned.input;
    Rest rest{input.directory,  input.visibility,           input.home,
              input.is_checked, planned.holds_adapter_only, {}};
    for (const Output& output : planned.outputs) {
        const auto& made = output.model.bound.quantisation;
        rest.outputs.push_back(
            {output.model.files.config_path, output.config_text, output.model.prepared.is_value,
             made ? made->shares : std::vector<std::uint32_t>(), output.session.warnings});
    }
    return rest;
}

void take_rest(Rest rest, Planned& planned) {
    Input& input = planned.input;
    input.directory = std::move(rest.directory);
    input.visibility = std::move(rest.visibility);
    input.home = rest.home;
    input.is_checked = rest.is_checked;
    planned.holds_adapter_only = rest.holds_adapter_only;
    for (std::size_t at = 0; at < planned.outputs.size(); ++at) {
        Output& output = planned.outputs[at];
        RestOfOutput& own = rest.outputs.at(at);
        output.model.files.config_path = std::move(own.config_path);
        output.config_text = std::move(own.config_text);
        output.model.prepared.is_value = own.is_value;
        output.model.bound.quantisation.emplace().shares = std::move(own.shares);
        output.session.warnings = std::move(own.warnings);
    }
}

/// The records of a plan's input, of which many name the same tensor, and the names once.
std::pair<catalogue::Records, std::vector<std::string>> named_once(catalogue::Records records) {
    std::unordered_map<std::string_view, std::uint32_t> known;
    std::vector<std::string> names;
    for (catalogue::StorageRecord& record : records.all) {
        const std::string_view name = records.tensors[record.tensor];
        const auto [at, is_new] = known.emplace(name, static_cast<std::uint32_t>(names.size()));
        if (is_new) {
            names.emplace_back(name);
        }
        record.tensor = at->second;
    }
    return {std::move(records), std::move(names)};
}

void put_handed(const plan::Plan* plan, ByteWriter& out) {
    out.put(plan != nullptr);
    if (plan != nullptr) {
        // GGUF's files are like those of the default format once they are placed.
        const auto& all = outputs::all_formats();
        const auto found = std::ranges::find(all, plan->placement.format);
        out.put(found == all.end() ? std::uint64_t{0}
                                   : static_cast<std::uint64_t>(found - all.begin()));
        plan::put_plan(*plan, out);
    }
}

HandedPlan get_handed(ByteReader& in) {
    HandedPlan handed;
    if (in.get<bool>()) {
        handed.format = in.get<std::uint64_t>();
        handed.plan = plan::get_plan(in);
    }
    return handed;
}

std::optional<plan::Plan> taken(HandedPlan& handed) {
    if (handed.plan) {
        handed.plan->placement.format = outputs::all_formats().at(handed.format);
    }
    return std::move(handed.plan);
}

std::vector<std::byte> handed_bytes(const Planned& planned) {
    const auto in_place = [](const std::optional<plan::Plan>& plan) {
        return plan ? &*plan : nullptr;
    };
    ByteWriter out;
    out.put(planned.input.files);
    out.put(planned.input.stamps);
    out.put(named_once(planned.input.sums->records()));
    out.put(planned.input.sums->uses());
    put_handed(in_place(planned.factors), out);
    for (const Output& output : planned.outputs) {
        put_handed(in_place(output.measured), out);
        put_handed(&output.plan, out);
    }
    return out.take();
}

Handed handed_from(std::span<const std::byte> bytes) {
    ByteReader in(bytes);
    Handed handed;
    handed.files = in.get<std::vector<catalogue::File>>();
    handed.stamps = in.get<std::vector<io::FileStamp>>();
    handed.records = in.get<catalogue::Records>();
    handed.tensors = in.get<std::vector<std::string>>();
    handed.records.tensors.assign(handed.tensors.begin(), handed.tensors.end());
    handed.uses = in.get<std::vector<execute::RecordSums::RecordUse>>();
    while (!in.at_end()) {
        handed.plans.push_back(get_handed(in));
    }
    return handed;
}

/// What handed_bytes has put lies elsewhere from now on.
void leave_handed(Planned& planned) {
    planned.input.files = {};
    planned.input.stamps = {};
    planned.input.sums = nullptr;
    planned.factors = std::nullopt;
    for (Output& output : planned.outputs) {
        output.measured = std::nullopt;
        output.plan = {};
    }
}

/// Needs the input's directory, and as many outputs as there are.
void take_handed(std::shared_ptr<Handed> handed, Planned& planned) {
    planned.input.files = std::move(handed->files);
    planned.input.stamps = std::move(handed->stamps);
    planned.input.sums = record_sums(planned.input.directory, planned.input.files,
                                     std::move(handed->records), std::move(handed->uses));
    auto next = handed->plans.begin();
    planned.factors = taken(*next++);
    for (Output& output : planned.outputs) {
        if (output.choice.records != nullptr) {
            output.choice.records = &planned.input.sums->records();
        }
        output.measured = taken(*next++);
        output.plan = taken(*next++).value();
        if (output.model.bound.output != nullptr) {
            output.plan.placement.format = output.model.bound.output.get();  // it is a planner's
        }
    }
    planned.handed = std::move(handed);
}

/// An output of planners as one of the run.
Output of_run(const Session& session, Output output) {
    return {session,
            std::move(output.model),
            std::move(output.plan),
            std::move(output.measured),
            output.choice,
            std::move(output.config_text)};
}

/// Which ranks plan, and for which others.
class NodePlanning {
  public:
    /// Collective. `sources` say who sees the same files.
    NodePlanning(const Outputs& outputs, const Sources& sources);

    /// Whether this rank plans.
    [[nodiscard]] bool is_planner() const { return planners_ != nullptr; }
    [[nodiscard]] const HostGroups& hosts() const { return hosts_; }
    /// Local, a planner's: the sources for these ranks alone, and their sessions, which write into
    /// the run's log and reports.
    void leave_to_planners(Sources& sources) const;
    [[nodiscard]] Outputs sessions_of_planners() const;
    /// Collective. The planners' plans for all ranks, also on those beside them, whose `planned` is
    /// empty so far.
    void hand_over(Planned& planned) const;

  private:
    /// Collective. What a planner's bytes stand for, once for all ranks beside it where they can
    /// have memory in common, else for each rank.
    [[nodiscard]] std::shared_ptr<Handed> shared(std::vector<std::byte> bytes) const;

    const Outputs& outputs_;
    Session session_;
    HostGroups hosts_;
    std::unique_ptr<mpi::Comm> planners_;  ///< null on other ranks
    std::unique_ptr<mpi::Comm> beside_;    ///< a planner, the first of them, and its neighbours
    MemoryMeter meter_;
};

NodePlanning::NodePlanning(const Outputs& outputs, const Sources& sources)
    : outputs_(outputs), session_(outputs.front()), hosts_(sources.weights().visibility.hosts()) {
    const int own = session_.comm.rank();
    auto planners = session_.comm.split(hosts_.is_leader(own) ? 0 : 1);
    if (hosts_.is_leader(own)) {
        planners_ = std::move(planners);
    }
    beside_ =
        session_.comm.split(static_cast<int>(hosts_.group_of_rank[static_cast<std::size_t>(own)]));
}

Outputs NodePlanning::sessions_of_planners() const {
    Outputs sessions;
    for (const Session& one : outputs_) {
        sessions.push_back(one.with(*planners_));
    }
    return sessions;
}

void NodePlanning::leave_to_planners(Sources& sources) const {
    for (Checkpoint& one : sources.inputs) {
        one.leave_to(*planners_);
    }
}

std::shared_ptr<Handed> NodePlanning::shared(std::vector<std::byte> bytes) const {
    std::shared_ptr<SharedHeap> heap;
    SharedHeap::Place place;
    auto failure = mpi::error_of([&] {
        if (is_planner()) {
            heap = SharedHeap::fill([&] { return new Handed(handed_from(bytes)); });
            place = heap->place();
        }
    });
    place = mpi::share(*beside_, 0, [&] { return place; });
    if (!is_planner() && place.size > 0) {
        failure = mpi::error_of([&] { heap = SharedHeap::open(place); });
    }
    const auto whys = mpi::gather(*beside_, failure ? std::string(failure->what()) : "");
    const auto why = std::ranges::find_if_not(whys, &std::string::empty);
    session_.run.is_planned_once = why == whys.end();
    if (why == whys.end()) {
        session_.log.debug("this node's ranks hold the plan once: " + human_bytes(place.size));
        heap->close();
        return {heap, static_cast<Handed*>(heap->root())};
    }
    session_.log.debug("each rank holds the plan: " + *why);
    heap = nullptr;
    SharedHeap::end_unheld();
    bytes = beside_->broadcast(std::move(bytes), 0);
    return mpi::collectively_get(*beside_,
                                 [&] { return std::make_shared<Handed>(handed_from(bytes)); });
}

void NodePlanning::hand_over(Planned& planned) const {
    std::vector<Output> outputs;
    for (std::size_t at = 0; at < outputs_.size(); ++at) {
        outputs.push_back(is_planner() ? of_run(outputs_[at], std::move(planned.outputs[at]))
                                       : Output{outputs_[at], {}, {}, {}, {}, {}});
    }
    planned.outputs = std::move(outputs);
    if (beside_->size() == 1) {
        return;
    }
    Rest rest = mpi::share(*beside_, 0, [&] { return rest_of(planned); });
    std::vector<std::byte> bytes;
    mpi::collectively(*beside_, [&] {
        if (is_planner()) {
            bytes = handed_bytes(planned);
            leave_handed(planned);
        }
    });
    if (!is_planner()) {
        take_rest(std::move(rest), planned);
        planned.input.meter = meter_;
    }
    take_handed(shared(std::move(bytes)), planned);
    planned.input.meter.planned();
}

}  // namespace

publish::Facts Output::facts() const {
    return facts_of(model, plan.targets);
}

std::string Output::model_class() const {
    if (!model.bound.has_model || config_text.empty()) {
        return "";
    }
    const auto written = models::Config::parse(config_text, model.files.config_path);
    const std::vector<std::string> classes = written.architectures();
    return classes.empty() ? "" : classes.front();
}

std::optional<bool> Output::ties() const {
    return ties_in(config_text, model.files.config_path);
}

bool Output::gets_card() const {
    return session.job.run.has_card && !session.output.is_training() && model.bound.has_model;
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
        if (model.prepared.training != nullptr) {
            for (publish::Asset& asset : assets) {
                asset.name = std::string(publish::kBesideShards) + asset.name;
            }
        }
        const auto& training = model.prepared.training;
        if (training != nullptr && training->like() != nullptr) {
            const auto& own = training->like()->assets;
            assets.insert(assets.end(), own.begin(), own.end());
        }
        for (const outputs::SideFile& file : plan.placement.side_files) {
            assets.push_back({file.name, {}, file.text});
        }
        if (!model.bound.optimizer_text.empty()) {
            assets.push_back({optimizer_file(training != nullptr), {}, model.bound.optimizer_text});
        }
    }
    if (!model.bound.adapter_config.empty()) {
        assets.push_back({kAdapterConfig, {}, model.bound.adapter_config});
    }
    return assets;
}

std::vector<std::vector<std::size_t>> Planned::runs() const {
    std::vector<std::vector<std::size_t>> runs;
    std::optional<std::size_t> of_models;
    for (std::size_t at = 0; at < outputs.size(); ++at) {
        const bool is_training = outputs[at].session.output.is_training();
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

MemoryForecast Planned::forecast(const mpi::Comm& comm, std::optional<int> ranks_on_node) const {
    constexpr std::string_view kNoLibrary = "none";
    std::optional<MemoryForecast> most;
    for (const auto& run : runs()) {
        MemoryForecast all = forecast_memory(outputs[run.front()].plan, input.meter.memory(),
                                             comm.library() != kNoLibrary,
                                             ranks_on_node.value_or(resources.ranks_on_node));
        for (std::size_t at = 1; at < run.size(); ++at) {
            all.buffers += plan::writing_buffers(outputs[run[at]].plan);
        }
        most = !most || all.peak() > most->peak() ? all : most;
    }
    return *most;
}

plan::PlanChoice choice_for(const Outputs& outputs, const PlanRequest& request, const Input& input,
                            const Resources& resources) {
    plan::PlanChoice choice = plan_choice(outputs.front().job, resources);
    choice.memory_limit /= (request.halves_memory ? 2 : 1) * outputs.size();
    choice.records = input.sums ? &input.sums->records() : nullptr;
    return choice;
}

Planned plan_models(const Outputs& outputs, const PlanRequest& request, Sources read,
                    std::vector<BoundModel> models, const Workers& workers) {
    Session session = outputs.front();
    Planned planned;
    planned.input = std::move(read.input);
    planned.holds_adapter_only = read.holds_adapter_only;
    planned.resources = request.n_ranks > 0 ? request.resources : workers.resources;
    plan::PlanChoice choice = choice_for(outputs, request, planned.input, planned.resources);
    if (workers.hosts) {
        planned.input.visibility.group_of_rank = workers.hosts->group_of_rank;
        planned.input.home = workers.hosts->leaders[static_cast<std::size_t>(planned.input.home)];
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
        input.sums->use_records_of(targets);
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
        describe_plan(one.session.report, one.plan, planned.input.files,
                      planned.factors ? &*planned.factors : nullptr);
        one.session.report.model_class = one.model_class();
    }
}

void say_plans(const Planned& planned) {
    for (const Output& output : planned.outputs) {
        say_plan(output.session, output.plan);
    }
    const Session& session = planned.first().session;
    session.log.info(
        model_line(planned.first().model_class(), size_of_model(planned.first().plan.targets)));
    const bool is_told = session.log.is_speaker() && !session.output.dtype;
    const std::string note = is_told ? dtype_note(planned.first()) : "";
    if (!note.empty()) {
        session.log.info("note: " + note);
    }
}

bool plans_once_a_node(const Outputs& outputs, const Sources& sources) {
    const HostGroups& hosts = sources.weights().visibility.hosts();
    const bool see_alike = std::ranges::all_of(sources.inputs, [&](const Checkpoint& one) {
        return one.visibility.hosts().group_of_rank == hosts.group_of_rank;
    });
    const bool are_models =
        std::ranges::none_of(outputs, [](const Session& one) { return one.output.is_training(); });
    return hosts.leaders.size() < hosts.group_of_rank.size() && see_alike && are_models;
}

Planned planned_once_a_node(const Outputs& outputs, const PlanRequest& request, Sources sources,
                            const Resources& resources, const PlanByPlanners& plan) {
    const Session& session = outputs.front();
    const NodePlanning once(outputs, sources);
    Planned planned;
    mpi::collectively_in_steps(session.comm, [&](const mpi::OnStep& step) {
        if (once.is_planner()) {
            once.leave_to_planners(sources);
            step();
            planned = plan(once.sessions_of_planners(), std::move(sources), once.hosts());
        }
    });
    (void)Sources(std::move(sources));  // is not needed any more
    mpi::collectively(session.comm, [&] { once.hand_over(planned); });
    if (!once.is_planner()) {
        planned.resources = request.n_ranks > 0 ? request.resources : resources;
        for (Output& output : planned.outputs) {
            output.choice = choice_for(outputs, request, planned.input, planned.resources);
        }
        session.watch.lap("plan");
    }
    return planned;
}

}  // namespace shardweld::app

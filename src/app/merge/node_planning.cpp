#include "node_planning.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "core/codec.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "outputs/format.hpp"
#include "plan/schedule/handed.hpp"
#include "publish/target.hpp"

namespace shardweld::app {

namespace {

/// What of the rest ranks ask for while they move tensors.
struct Rest {
    fs::path directory;
    std::vector<catalogue::File> files;
    plan::Visibility visibility;
    std::vector<io::FileStamp> stamps;
    int home = 0;
    bool is_checked = false;
    catalogue::Records records;
    std::vector<execute::RecordSums::RecordUse> uses;
    std::string config_path;
    std::string config_text;
    bool holds_adapter_only = false;
    bool is_value = false;
    std::vector<std::uint32_t> shares;  ///< NVFP4

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.directory, self.files, self.visibility, self.stamps, self.home,
                        self.is_checked, self.records, self.uses, self.config_path,
                        self.config_text, self.holds_adapter_only, self.is_value, self.shares);
    };
};

Rest rest_of(const Planned& planned) {
    const Input& input = planned.input;
    const Output& output = planned.first();
    const auto& made = output.model.bound.quantisation;
    return {input.directory,
            input.files,
            input.visibility,
            input.stamps,
            input.home,
            input.is_checked,
            input.sums->records(),
            input.sums->uses(),
            output.model.files.config_path,
            output.config_text,
            planned.holds_adapter_only,
            output.model.prepared.is_value,
            made ? made->shares : std::vector<std::uint32_t>()};
}

void take_rest(Rest rest, Planned& planned) {
    Input& input = planned.input;
    Output& output = planned.first();
    input.sums =
        record_sums(rest.directory, rest.files, std::move(rest.records), std::move(rest.uses));
    input.directory = std::move(rest.directory);
    input.files = std::move(rest.files);
    input.visibility = std::move(rest.visibility);
    input.stamps = std::move(rest.stamps);
    input.home = rest.home;
    input.is_checked = rest.is_checked;
    output.model.files.config_path = std::move(rest.config_path);
    output.config_text = std::move(rest.config_text);
    planned.holds_adapter_only = rest.holds_adapter_only;
    output.model.prepared.is_value = rest.is_value;
    output.model.bound.quantisation.emplace().shares = std::move(rest.shares);
}

/// Whether an earlier run has left something that this one may take up. Local.
bool may_take_up(const Session& session) {
    return !session.options.restart &&
           std::ranges::any_of(
               publish::unfinished_work(session.output.directory),
               [](const fs::path& partial) { return io::kind_at(partial) != io::FileKind::none; });
}

/// An output of planners as one of the run.
Output of_run(const Session& session, Output output) {
    return {session,
            std::move(output.model),
            std::move(output.plan),
            std::move(output.measured),
            std::move(output.choice),
            std::move(output.config_text)};
}

bool sees_as(const FoundCheckpoint& found, const HostGroups& hosts) {
    return found.visibility.hosts().group_of_rank == hosts.group_of_rank;
}

/// Who plans for whom.
class NodePlanning {
  public:
    /// Collective. `sources` say who sees the same files.
    NodePlanning(const Session& session, const PlanRequest& request, const Sources& sources);

    /// Whether this rank plans.
    [[nodiscard]] bool is_planner() const { return planners_ != nullptr; }
    [[nodiscard]] const HostGroups& hosts() const { return hosts_; }
    /// Local, a planner's: the sources for these ranks alone, and their session, which writes into
    /// the run's log and report.
    void leave_to_planners(Sources& sources) const;
    [[nodiscard]] Session session_of_planners() const { return session_.with(*planners_); }
    /// Collective. The planners' plan of one output for all ranks, also on those beside them, whose
    /// `planned` is empty so far.
    void hand_over(Planned& planned) const;

  private:
    /// Collective. The planner's plan on the ranks beside it, with all operands or their own.
    void hand_over(plan::Plan& plan, bool is_whole) const;
    /// Collective. A plan with all operands, where the planner has it.
    void hand_over(std::optional<plan::Plan>& plan) const;

    Session session_;
    HostGroups hosts_;
    bool is_cut_anew_;                     ///< the line: the plan's owners may be others
    std::unique_ptr<mpi::Comm> planners_;  ///< null on other ranks
    std::unique_ptr<mpi::Comm> beside_;    ///< a planner, the first of them, and its neighbours
    MemoryMeter meter_;
};

NodePlanning::NodePlanning(const Session& session, const PlanRequest& request,
                           const Sources& sources)
    : session_(session),
      hosts_(sources.checkpoint.visibility.hosts()),
      is_cut_anew_(mpi::share(session.comm, 0,
                              [&] { return request.ranks.has_value() || may_take_up(session); })) {
    const int own = session.comm.rank();
    auto planners = session.comm.split(hosts_.is_leader(own) ? 0 : 1);
    if (hosts_.is_leader(own)) {
        planners_ = std::move(planners);
    }
    beside_ =
        session.comm.split(static_cast<int>(hosts_.group_of_rank[static_cast<std::size_t>(own)]));
}

void NodePlanning::leave_to_planners(Sources& sources) const {
    sources.checkpoint.leave_to(*planners_);
    if (sources.base) {
        sources.base->leave_to(*planners_);
    }
    for (OtherCheckpoint& other : sources.others) {
        other.found.leave_to(*planners_);
    }
}

void NodePlanning::hand_over(plan::Plan& plan, bool is_whole) const {
    std::vector<std::byte> bytes;
    mpi::collectively(*beside_, [&] {
        if (is_planner()) {
            bytes = plan::as_bytes(plan);
        }
    });
    bytes = beside_->broadcast(std::move(bytes), 0);
    if (!is_planner()) {
        plan = plan::plan_from(bytes, session_.comm.rank(), is_whole);
    }
}

void NodePlanning::hand_over(std::optional<plan::Plan>& plan) const {
    if (mpi::share(*beside_, 0, [&] { return plan.has_value(); })) {
        hand_over(plan ? *plan : plan.emplace(), true);
    }
}

void NodePlanning::hand_over(Planned& planned) const {
    Rest rest = mpi::share(*beside_, 0, [&] { return rest_of(planned); });
    auto warnings = mpi::share(*beside_, 0, [&] { return session_.warnings; });
    std::vector<Output> outputs;
    outputs.push_back(is_planner() ? of_run(session_, std::move(planned.first()))
                                   : Output{session_, {}, {}, {}, {}, {}});
    planned.outputs = std::move(outputs);
    Output& output = planned.first();
    hand_over(planned.factors);
    hand_over(output.measured);
    // Where factors or divisors come first, ranks read for targets that others make.
    hand_over(output.plan, is_cut_anew_ || planned.factors || output.measured);
    if (is_planner()) {
        return;
    }
    take_rest(std::move(rest), planned);
    planned.input.meter = meter_;
    planned.input.meter.planned();
    session_.warnings = std::move(warnings);
}

}  // namespace

bool plans_once_a_node(const Outputs& outputs, const PlanRequest& request, const Sources& sources) {
    const Options& options = outputs.front().options;
    const HostGroups& hosts = sources.checkpoint.visibility.hosts();
    const bool see_alike = (!sources.base || sees_as(*sources.base, hosts)) &&
                           std::ranges::all_of(sources.others, [&](const auto& other) {
                               return sees_as(other.found, hosts);
                           });
    const bool is_default = plan_choice(options, {}).output_format == &outputs::default_format() &&
                            !becomes_gguf(outputs.front().output.quantise);
    return hosts.leaders.size() < hosts.group_of_rank.size() && see_alike && is_default &&
           outputs.size() == 1 && request.sink == Destination::model;
}

Planned planned_once_a_node(const Session& session, const PlanRequest& request, Sources sources,
                            const Resources& resources, const PlanByPlanners& plan) {
    const NodePlanning once(session, request, sources);
    Planned planned;
    mpi::collectively_in_steps(session.comm, [&](const mpi::OnStep& step) {
        if (once.is_planner()) {
            once.leave_to_planners(sources);
            step();
            planned = plan(once.session_of_planners(), std::move(sources), once.hosts());
        }
    });
    (void)Sources(std::move(sources));  // is not needed any more
    once.hand_over(planned);
    if (!once.is_planner()) {
        planned.resources = request.ranks ? request.ranks->resources : resources;
        planned.first().choice = choice_for({session}, request, planned.input, planned.resources);
        session.watch.lap("plan");
    }
    return planned;
}

}  // namespace shardweld::app

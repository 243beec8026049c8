#include "node_planning.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/codec.hpp"
#include "core/error_of.hpp"
#include "core/process/shared_heap.hpp"
#include "core/text.hpp"
#include "mpi/share.hpp"
#include "outputs/format.hpp"
#include "plan/schedule/plan_transfer.hpp"

namespace shardweld::app {

/// What ranks need of an output while they move its tensors.
struct OutputTransfer {
    std::string config_path;
    std::string config_text;
    bool is_value = false;
    std::vector<std::uint32_t> shares;  ///< of divisors of scales
    Warnings warnings;
};

/// What ranks need of a plan that another has made: once on a node where that can be done. The
/// planner has it like those beside it.
struct PlanTransfer {
    Input input;
    bool holds_adapter_only = false;
    std::pair<catalogue::Records, std::vector<std::string>> records;  ///< and what they name
    std::vector<execute::RecordSums::RecordUse> uses;
    std::vector<OutputTransfer> outputs;
    std::vector<std::size_t> formats;  ///< of the plans, among all formats
    /// Factors, and of each output what is measured and its own; but for their formats, which are
    /// other values in each process.
    std::vector<std::optional<plan::Plan>> plans = {};

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.input, self.holds_adapter_only, self.records, self.uses, self.outputs,
                        self.formats);
    };
};

namespace {

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

/// Factors, and of each output what is measured and its own; null: there is none.
std::vector<const plan::Plan*> plans_of(const Merge& merge) {
    std::vector<const plan::Plan*> plans{pointer_to(merge.factors)};
    for (const Output& output : merge.outputs) {
        plans.push_back(pointer_to(output.measured));
        plans.push_back(&output.plan);
    }
    return plans;
}

/// Leaves the merge without what is large.
ByteBuffer transfer_bytes(const Run& run, Merge& merge) {
    auto sums = std::move(merge.input.sums);
    PlanTransfer transfer{std::move(merge.input),
                          merge.holds_adapter_only,
                          named_once(sums->records()),
                          sums->uses(),
                          {},
                          {}};
    sums = nullptr;
    for (Output& output : merge.outputs) {
        const auto& made = output.model.quantisation;
        transfer.outputs.push_back(
            {output.model.files.config_path, output.config_text, output.model.is_value,
             made ? made->shares : std::vector<std::uint32_t>(), warnings_of(run, output.report)});
    }
    const auto plans = plans_of(merge);
    for (const plan::Plan* const plan : plans) {
        // GGUF's files are like those of the default format once they are placed.
        const auto& all = outputs::all_formats();
        const auto found =
            plan == nullptr ? all.end() : std::ranges::find(all, plan->placement.format);
        transfer.formats.push_back(found == all.end() ? 0 : as_size(found - all.begin()));
    }
    ByteWriter out;
    out.put(transfer);
    for (const plan::Plan* const plan : plans) {
        out.put(plan != nullptr);
        if (plan != nullptr) {
            plan::put_plan(*plan, out);
        }
    }
    merge.factors = std::nullopt;
    for (Output& output : merge.outputs) {
        output.measured = std::nullopt;
        output.plan = {};
    }
    return out.take();
}

PlanTransfer transfer_from(ByteView bytes) {
    ByteReader in(bytes);
    auto transfer = in.get<PlanTransfer>();
    auto& [records, names] = transfer.records;
    records.tensors.assign(names.begin(), names.end());
    while (!in.at_end()) {
        transfer.plans.push_back(in.get<bool>() ? std::optional(plan::get_plan(in)) : std::nullopt);
    }
    return transfer;
}

/// What an output needs that another rank has planned.
void complete_output(const Run& run, OutputTransfer& from, Output& output) {
    output.model.files.config_path = std::move(from.config_path);
    output.config_text = std::move(from.config_text);
    output.model.is_value = from.is_value;
    output.model.quantisation.emplace().shares = std::move(from.shares);
    warnings_of(run, output.report) = std::move(from.warnings);
}

void receive_plans(const Run& run, bool is_planner, std::shared_ptr<PlanTransfer> transfer,
                   Merge& merge) {
    Input& input = merge.input;
    const RankMemory memory = input.memory;
    input = std::move(transfer->input);
    input.memory = memory;
    merge.holds_adapter_only = transfer->holds_adapter_only;
    input.sums = record_sums(input.directory, input.files, std::move(transfer->records.first),
                             std::move(transfer->uses));
    std::size_t at = 0;
    const auto next = [&] {
        std::optional<plan::Plan>& plan = transfer->plans[at];
        if (plan) {
            plan->placement.format = outputs::all_formats().at(transfer->formats[at]);
        }
        ++at;
        return std::move(plan);
    };
    merge.factors = next();
    for (const std::size_t number : indices(merge.outputs)) {
        Output& output = merge.outputs[number];
        if (!is_planner) {
            complete_output(run, transfer->outputs[number], output);
        }
        output.measured = next();
        output.plan = next().value();
        if (output.model.output != nullptr) {
            output.plan.placement.format = output.model.output.get();  // it is a planner's
        }
    }
    merge.handed = std::move(transfer);
}

}  // namespace

NodePlanning::NodePlanning(const Run& run, Merge& merge)
    : run_(run), merge_(merge), hosts_(merge.weights().visibility.hosts()) {
    const bool see_alike = std::ranges::all_of(merge.inputs, [&](const Checkpoint& one) {
        return one.visibility.hosts().group_of_rank == hosts_.group_of_rank;
    });
    is_once_ = hosts_.leaders.size() < hosts_.group_of_rank.size() && see_alike &&
               !merge.writes_training();
    if (!is_once_) {
        return;
    }
    const int own = run.comm.rank();
    auto planners = run.comm.split(hosts_.is_leader(own) ? 0 : 1);
    if (hosts_.is_leader(own)) {
        planners_ = std::move(planners);
    }
    beside_ = run.comm.split(static_cast<int>(hosts_.group_of_rank[as_size(own)]));
}

void NodePlanning::plan(const std::function<void(const Run&)>& steps) {
    if (!is_once_) {
        steps(run_);
        return;
    }
    mpi::collectively_in_steps(run_.comm, [&](const mpi::OnStep& step) {
        if (planners_ != nullptr) {
            for (Checkpoint& one : merge_.inputs) {
                one.leave_to(*planners_);
            }
            merge_.hosts = hosts_;
            step();
            steps(run_.with(*planners_));
        }
    });
    merge_.inputs.clear();  // not needed any more
    mpi::collectively(run_.comm, [&] { hand_over(); });
    if (planners_ == nullptr) {
        run_.watch->lap("plan");
    }
}

std::shared_ptr<PlanTransfer> NodePlanning::shared(ByteBuffer bytes) const {
    std::shared_ptr<SharedHeap> heap;
    SharedHeap::Place place;
    auto failure = error_of([&] {
        if (planners_ != nullptr) {
            heap = SharedHeap::fill([&] { return new PlanTransfer(transfer_from(bytes)); });
            place = heap->place();
        }
    });
    place = mpi::share(*beside_, 0, [&] { return place; });
    if (planners_ == nullptr && place.size > 0) {
        failure = error_of([&] { heap = SharedHeap::open(place); });
    }
    const auto whys = mpi::gather(*beside_, failure ? std::string(failure->what()) : "");
    const auto why = std::ranges::find_if_not(whys, &std::string::empty);
    run_.report->is_planned_once = why == whys.end();
    if (why == whys.end()) {
        run_.log.debug("this node's ranks hold the plan once: " + human_bytes(place.size));
        heap->close();
        return {heap, static_cast<PlanTransfer*>(heap->root())};
    }
    run_.log.debug("each rank holds the plan: " + *why);
    heap = nullptr;
    SharedHeap::end_unheld();
    bytes = beside_->broadcast(std::move(bytes), 0);
    return mpi::collectively_get(
        *beside_, [&] { return std::make_shared<PlanTransfer>(transfer_from(bytes)); });
}

void NodePlanning::hand_over() {
    if (beside_->size() == 1) {
        return;
    }
    ByteBuffer bytes;
    mpi::collectively(*beside_, [&] {
        if (planners_ != nullptr) {
            bytes = transfer_bytes(run_, merge_);
        }
    });
    if (planners_ == nullptr) {
        merge_.input.memory = memory_;
    }
    receive_plans(run_, planners_ != nullptr, shared(std::move(bytes)), merge_);
    merge_.input.memory.measure_plan();
}

}  // namespace shardweld::app

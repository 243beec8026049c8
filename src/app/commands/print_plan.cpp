// `shardweld plan`: what a merge would do.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/merge/merge.hpp"
#include "app/merge/preflight.hpp"
#include "app/merge/resumption.hpp"
#include "app/merge/sources.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "app/runtime/memory.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/footprint.hpp"
#include "plan/schedule/traffic.hpp"
#include "publish/room.hpp"
#include "publish/target.hpp"
#include "shardweld/error.hpp"

#include "advice.hpp"
#include "commands.hpp"

namespace shardweld::app {

namespace {

/// What a planned merge costs: traffic, balance, memory, rounds, time, and room at the target.
struct PlanCost {
    plan::Traffic traffic;
    plan::Spread written;     ///< bytes, by rank
    plan::Spread read;        ///< bytes, by rank
    plan::Spread readers;     ///< ranks, by shard file
    plan::Spread writers;     ///< ranks, by output file
    Bytes network_bytes = 0;  ///< sent from rank to rank by all, replicas included
    Bytes read_over_bytes = 0;
    Index reads = 0;
    Index messages = 0;
    Index rounds = 0;       ///< of the busiest rank, at least
    double metadata_s = 0;  ///< reading metadata and planning, where the merge runs
    MemoryForecast memory;
    std::optional<Advice> advice;     ///< none for --inputs
    std::optional<Bytes> bytes_free;  ///< where the target will be, if one is given
    bool has_room = true;             ///< there, as far as it was looked at
};

constexpr int kPlanSchema = 1;

// What follows a size that only creating the files tells exactly.
constexpr const char* kEstimated = " (sizes and offsets are estimates)";

/// "2.0 GB to 2.1 GB, mean 2.0 GB, busiest / mean 1.020"
std::string spread_text(const plan::Spread& spread) {
    return human_bytes(static_cast<Bytes>(spread.least)) + " to " +
           human_bytes(static_cast<Bytes>(spread.most)) + ", mean " +
           human_bytes(static_cast<Bytes>(spread.mean)) + ", busiest / mean " +
           formatted("%.3f", spread.imbalance());
}

/// "at most 3, mean 1.250"
std::string most_text(const plan::Spread& spread) {
    return "at most " + std::to_string(static_cast<Index>(spread.most)) + ", mean " +
           formatted("%.3f", spread.mean);
}

std::string files_table(const plan::Plan& plan, bool is_each_shown) {
    constexpr std::size_t kFew = 8;
    Cells cells{{"file", "tensors", "bytes"}};
    const std::size_t n_files = plan.placement.files.size();
    const std::size_t n_shown = is_each_shown || n_files <= kFew ? n_files : 2;
    for (std::size_t at = 0; at < n_shown; ++at) {
        const outputs::PlacedFile& file = plan.placement.files[at];
        cells.push_back(
            {file.name, std::to_string(file.tensors.size()), std::to_string(file.size)});
    }
    if (n_shown < n_files) {
        cells.push_back({"and " + std::to_string(n_files - n_shown) + " more (-v lists them)"});
    }
    for (const outputs::SideFile& file : plan.placement.side_files) {
        cells.push_back({file.name, "", std::to_string(file.text.size())});
    }
    return table({Align::left, Align::right, Align::right}, cells);
}

std::string replicas_text(const plan::Plan& plan) {
    if (plan.replica_bytes == 0) {
        return "none";
    }
    const Bytes rest = plan.replica_bytes - plan.equal_bytes;
    const std::string equal = plan.equal_bytes == 0
                                  ? ""
                                  : ", " + human_bytes(plan.equal_bytes) + " equal by their CRC-32";
    const std::string how =
        rest == 0                  ? ""
        : plan.compared_bytes == 0 ? ", not compared"
        : plan.compared_bytes == rest
            ? ", all compared"
            : ", samples of about " + human_bytes(plan.compared_bytes) + " compared";
    return human_bytes(plan.replica_bytes) + equal + how;
}

/// "1 file, 46 tensors, 386 kB".
std::string output_text(const plan::Plan& plan) {
    return counted(plan.placement.files.size(), "file") + ", " +
           counted(plan.tensors.size(), "tensor") + ", " +
           human_bytes(plan.placement.total_bytes()) +
           (plan.placement.is_settled ? "" : kEstimated);
}

/// "" where none is given.
std::string target_of(const Job& job) {
    return job.has("target_dir") || job.run.is_verl ? job.outputs.front().directory.string() : "";
}

/// What is asked of a plan first: how many ranks, what they need, what they would write, and
/// whether there is room for it.
std::string answer_text(const Job& job, const plan::Plan& plan, const PlanCost& cost) {
    constexpr std::ptrdiff_t kCommands = 2;  // the last rows
    Cells rows;
    if (cost.advice) {
        rows = answer_rows(*cost.advice, job.merge_words);
    }
    const std::string both = human_bytes(plan.placement.total_bytes()) + " needed, " +
                             human_bytes(cost.bytes_free.value_or(0)) + " free";
    const std::string target = target_of(job);
    rows.insert(rows.end() - (cost.advice ? kCommands : 0),
                {"would write", output_text(plan) + (target.empty() ? "" : " to " + target)});
    rows.insert(
        rows.begin(),
        {"fits", !cost.bytes_free ? "unknown: name a target (plan DIR OUT) to have its room checked"
                                  : (cost.has_room ? "yes: " : "NO: ") + both});
    return table({Align::left, Align::left}, rows);
}

Cells plan_rows(const Run& run, const Merge& merge, const PlanCost& cost) {
    const Output& output = merge.first();
    const plan::Plan& plan = output.plan;
    const MemoryForecast& memory = cost.memory;
    Cells rows{
        {"checkpoint", io::shown(run.report->input.directory)},
        {"format", run.report->input.format},
        {"recipe", output.model.recipe->name},
        {"output", output_text(plan)},
        {"ranks", std::to_string(plan.n_ranks())},
        {"written by a rank", spread_text(cost.written)},
        {"read by a rank", spread_text(cost.read)},
        {"reads", std::to_string(cost.reads) + ", " + human_bytes(cost.read_over_bytes) +
                      " of extra bytes between needed pieces"},
        {"readers of a shard", most_text(cost.readers)},
        {"writers of a file", most_text(cost.writers)},
        {"buffers of a rank", human_bytes(plan.limits.total())},
        {"metadata of a rank", human_bytes(plan::metadata_bytes(plan))},
        {"reads of metadata", std::to_string(merge.input.n_reads) + ", shared by the ranks"},
        {"peak of a rank", human_bytes(memory.peak()) + ": program " + human_bytes(memory.base) +
                               ", planning " + human_bytes(memory.metadata) +
                               ", then plan and buffers " +
                               human_bytes(memory.plan + std::max(memory.making, memory.buffers))},
        {"rounds",
         std::to_string(cost.rounds) + ", of " + human_bytes(plan.limits.round) + " at most"},
        {"strategy", std::string(plan::name_of(plan.strategy)) + ": " + plan.why},
        {"sent over the network",
         human_bytes(cost.network_bytes) + " in " + counted(cost.messages, "message")},
        {"replicas", replicas_text(plan)},
        {"plan", plan.hash()},
    };
    if (output.report.quotas) {
        rows.push_back({"quotas", quotas_text(*output.report.quotas)});
    }
    return rows;
}

std::string ledger_text(const plan::Ledger& ledger) {
    Cells cells{{"  stored", "", std::to_string(ledger.stored), ""},
                {"  used", "", std::to_string(ledger.consumed), ""},
                {"  replicas", "", std::to_string(ledger.replica), ""},
                {"  padding", "", std::to_string(ledger.padding), ""}};
    for (const catalogue::Ignored& ignored : ledger.ignored) {
        cells.push_back({"  ignored " + printable(ignored.pattern), std::to_string(ignored.count),
                         std::to_string(ignored.bytes), printable(ignored.reason)});
    }
    return "input bytes\n" + table({Align::left, Align::right, Align::right, Align::left}, cells);
}

ordered_json most_json(const plan::Spread& spread) {
    return {{"max", static_cast<Index>(spread.most)}, {"mean", spread.mean}};
}

ordered_json files_json(const plan::Plan& plan) {
    ordered_json files = ordered_json::array();
    for (const outputs::PlacedFile& file : plan.placement.files) {
        files.push_back(
            {{"name", file.name}, {"bytes", file.size}, {"tensors", file.tensors.size()}});
    }
    for (const outputs::SideFile& file : plan.placement.side_files) {
        files.push_back({{"name", file.name}, {"bytes", file.text.size()}, {"tensors", 0}});
    }
    return files;
}

// Plans are for another machine: this one's limits say nothing.
constexpr Bytes kMemoryLimit = Bytes{256} << 20U;

Merge begin_plan(const Run& run) {
    Merge merge = begin_merge(run);
    merge.n_ranks = run.job.run.n_ranks;
    // As on the nodes that forecasts suppose.
    const int on_node = std::min(merge.n_ranks, ordinary_machine().shared.ranks_per_node);
    merge.supposed = {kMemoryLimit, has_spare_core(on_node), on_node, cached_bytes()};
    return merge;
}

PlanCost cost_of(const plan::Plan& plan) {
    using plan::FileTraffic;
    using plan::RankTraffic;
    using plan::spread_of;
    PlanCost cost;
    cost.traffic = traffic_of(plan);
    cost.written = spread_of(cost.traffic.ranks, &RankTraffic::bytes_written);
    cost.read = spread_of(cost.traffic.ranks, &RankTraffic::bytes_read);
    cost.readers = spread_of(cost.traffic.inputs, &FileTraffic::ranks);
    cost.writers = spread_of(cost.traffic.outputs, &FileTraffic::ranks);
    for (const RankTraffic& rank : cost.traffic.ranks) {
        cost.network_bytes += rank.bytes_sent;
        cost.read_over_bytes += rank.bytes_read_over;
        cost.reads += rank.reads;
        cost.messages += rank.messages_sent;
        cost.rounds = std::max(cost.rounds, rank.rounds);
    }
    return cost;
}

/// A line for each file that tensors are read from: its bytes, a blank, its path.
std::string inputs_text(const Run& run, const Merge& merge) {
    const fs::path input = run.report->input.directory;
    std::string text;
    for (const catalogue::File& file : merge.input.files) {
        text += std::to_string(file.size) + " " + (input / file.path).string() + "\n";
    }
    return text;
}

/// Fields are never renamed or removed.
void print_plan_json(const Run& run, const Merge& merge, const PlanCost& cost, std::ostream& out) {
    const Output& output = merge.first();
    const plan::Plan& plan = output.plan;
    const InputReport& input = run.report->input;
    const std::string target = target_of(run.job);
    ordered_json json = {{"schema", kPlanSchema},
                         {"ok", cost.has_room},
                         {"dir", input.directory},
                         {"input", {{"dir", input.directory}, {"format", input.format}}},
                         {"recipe", output.model.recipe->name},
                         {"ranks", plan.n_ranks()},
                         {"hash", plan.hash()},
                         {"strategy", std::string(plan::name_of(plan.strategy))},
                         {"why", plan.why},
                         {"options", way_of(run.job, output.asked()).options}};
    json["tensor_bytes"] = plan.placement.tensor_bytes;
    json["total_bytes"] = plan.placement.total_bytes();
    json["written_by_rank"] = collect_list(cost.traffic.ranks, &plan::RankTraffic::bytes_written);
    json["imbalance"] = cost.written.imbalance();
    json["read_by_rank"] = collect_list(cost.traffic.ranks, &plan::RankTraffic::bytes_read);
    json["read_imbalance"] = cost.read.imbalance();
    json["read_over_bytes"] = cost.read_over_bytes;
    json["reads"] = cost.reads;
    json["readers_per_file"] = most_json(cost.readers);
    json["writers_per_file"] = most_json(cost.writers);
    json["buffer_bytes"] = plan.limits.total();
    json["metadata_bytes"] = plan::metadata_bytes(plan);
    json["metadata_reads"] = merge.input.n_reads;
    json["metadata_s"] = cost.metadata_s;
    json["peak_bytes"] = cost.memory.peak();
    json["memory"] = {
        {"base_bytes", cost.memory.base},      {"metadata_bytes", cost.memory.metadata},
        {"plan_bytes", cost.memory.plan},      {"making_bytes", cost.memory.making},
        {"buffer_bytes", cost.memory.buffers}, {"limit_bytes", plan.limits.total()},
        {"read_ahead", plan.limits.ahead > 0}};
    json["network_bytes"] = cost.network_bytes;
    json["sent_by_rank"] = collect_list(cost.traffic.ranks, &plan::RankTraffic::bytes_sent);
    json["messages"] = cost.messages;
    json["rounds"] = cost.rounds;
    json["round_bytes"] = plan.limits.round;
    json["is_estimate"] = !plan.placement.is_settled;
    json["replicas"] = {{"bytes", plan.replica_bytes},
                        {"equal_bytes", plan.equal_bytes},
                        {"compared_bytes", plan.compared_bytes}};
    json["quotas"] = quotas_json(output.report.quotas);
    json["files"] = files_json(plan);
    json["tensors"] = ordered_json::array();
    json["ledger"] = json_of(output.report.ledger);
    json["warnings"] = json_list(run.report->warnings);
    json["target"] = target.empty() ? ordered_json() : ordered_json(fs::absolute(target).string());
    json["bytes_free"] = json_or_null(cost.bytes_free);
    json["merge_words"] = run.job.merge_words;
    json["advice"] = cost.advice ? advice_json(*cost.advice) : ordered_json();
    const execute::Result nothing_done;
    const auto entry_of =
        entries_of(plan, merge.input.files, nothing_done, pointer_to(merge.factors));
    print_json(out, json, "tensors", plan.tensors.size(),
               [&](std::size_t i) { return json_of(entry_of(i)); });
}

PlanCost forecast_cost(const Run& run, Merge& merge, bool has_room) {
    const Job& job = run.job;
    PlanCost cost = cost_of(merge.first().plan);
    const plan::Machine machine = ordinary_machine();
    const plan::MetadataWork metadata = metadata_work(merge);
    cost.has_room = has_room;
    cost.metadata_s =
        metadata_seconds(metadata, job.run.n_ranks, merge.resources().ranks_on_node, machine);
    if (!job.run.lists_inputs) {
        cost.advice = advise(merge, cost.traffic, machine, metadata, job, run.comm);
    }
    cost.memory = merge.forecast(run.comm);
    if (const std::string target = target_of(job); !target.empty()) {
        cost.bytes_free = publish::room_at(publish::holder_of(target), "").bytes_free;
    }
    return cost;
}

/// The answer and the ranks first. Many files are a line, unless each is asked for.
std::string plan_text(const Run& run, const Merge& merge, const PlanCost& cost) {
    const plan::Plan& plan = merge.first().plan;
    return answer_text(run.job, plan, cost) + "\n" +
           (cost.advice ? advice_text(*cost.advice, cost.memory) + "\n" : "") +
           table({Align::left, Align::left}, plan_rows(run, merge, cost)) + "\n" +
           files_table(plan, run.job.run.log_level == LogLevel::debug) + "\n" +
           ledger_text(merge.first().report.ledger);
}

void print_planned(const Run& run, const Merge& merge, const PlanCost& cost, std::ostream& out,
                   Log& log) {
    const Job& job = run.job;
    const Warnings& warnings = run.report->warnings;
    for (const Warning& warning : warnings) {
        log.warning((warning.tensor.empty() ? "" : printable(warning.tensor) + ": ") +
                    warning.text);
    }
    for (const std::string& line : merge.trace) {
        log.trace(printable(line));
    }
    if (job.run.json && !job.run.lists_inputs) {
        print_plan_json(run, merge, cost, out);
    } else {
        out << (job.run.lists_inputs ? inputs_text(run, merge) : plan_text(run, merge, cost));
    }
    if (job.run.strict && !warnings.empty()) {
        throw Error(ErrorCode::strict,
                    counted(warnings.size(), "warning") + " under --strict: the merge would fail",
                    "see to what is warned of, or leave --strict out");
    }
}

}  // namespace

int print_plan(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log) {
    // What is found stands in the report, and is shown with the plan.
    Events nobody;
    Log silent(nobody, false);
    const Run run = begin_run(comm, job, job.outputs, silent, log);
    const bool has_target = job.has("target_dir");
    Merge merge = begin_plan(run);
    Preflight preflight;
    check_targets(preflight, run, merge, has_target);
    if (preflight.check([&] { find_inputs(run, merge); })) {
        bool has_room = !has_target || check_found(preflight, run, merge);
        if (preflight.check([&] { plan_found(run, merge); })) {
            if (has_target) {
                has_room = check_target_place(preflight, run, merge, has_room);
            }
            const auto print = [&] {
                print_planned(run, merge, forecast_cost(run, merge, has_room), out, log);
            };
            preflight.check([&] { mpi::on_first(comm, print); });
        }
    }
    preflight.require_none();
    return 0;
}

}  // namespace shardweld::app

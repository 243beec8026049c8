#include "print_plan.hpp"

#include <algorithm>
#include <string>
#include <utility>

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
#include "publish/room.hpp"
#include "publish/target.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

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
    std::vector<std::vector<std::string>> cells{{"file", "tensors", "bytes"}};
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

/// What is asked of a plan first: how many ranks, what they need, what they would write, and
/// whether there is room for it.
std::string answer_text(const PlannedMerge& merge) {
    constexpr std::ptrdiff_t kCommands = 2;  // the last rows
    std::vector<std::vector<std::string>> rows;
    if (merge.advice) {
        rows = answer_rows(*merge.advice, merge.words);
    }
    const std::string both = human_bytes(merge.plan.placement.total_bytes()) + " needed, " +
                             human_bytes(merge.bytes_free.value_or(0)) + " free";
    rows.insert(rows.end() - (merge.advice ? kCommands : 0),
                {"would write",
                 output_text(merge.plan) + (merge.target.empty() ? "" : " to " + merge.target)});
    rows.insert(rows.begin(),
                {"fits", !merge.bytes_free
                             ? "unknown: name a target (plan DIR OUT) to have its room checked"
                             : (merge.has_room ? "yes: " : "NO: ") + both});
    return table({Align::left, Align::left}, rows);
}

std::vector<std::vector<std::string>> plan_rows(const PlannedMerge& merge) {
    const Figures& figures = merge.figures;
    const plan::Plan& plan = merge.plan;
    std::vector<std::vector<std::string>> rows{
        {"checkpoint", io::shown(merge.input)},
        {"format", merge.format},
        {"recipe", merge.recipe},
        {"output", output_text(plan)},
        {"ranks", std::to_string(plan.n_ranks())},
        {"written by a rank", spread_text(figures.written)},
        {"read by a rank", spread_text(figures.read)},
        {"reads", std::to_string(figures.reads) + ", " + human_bytes(figures.read_over_bytes) +
                      " of extra bytes between needed pieces"},
        {"readers of a shard", most_text(figures.readers)},
        {"writers of a file", most_text(figures.writers)},
        {"buffers of a rank", human_bytes(figures.buffer_bytes)},
        {"metadata of a rank", human_bytes(figures.metadata_bytes)},
        {"reads of metadata", std::to_string(merge.n_reads) + ", shared by the ranks"},
        {"peak of a rank",
         human_bytes(merge.memory.peak()) + ": program " + human_bytes(merge.memory.base) +
             ", planning " + human_bytes(merge.memory.metadata) + ", then plan and buffers " +
             human_bytes(merge.memory.plan + std::max(merge.memory.making, merge.memory.buffers))},
        {"rounds", std::to_string(figures.rounds)},
        {"strategy", std::string(plan::name_of(plan.strategy)) + ": " + plan.why},
        {"sent over the network",
         human_bytes(figures.network_bytes) + " in " +
             counted(static_cast<std::size_t>(figures.messages), "message")},
        {"replicas", replicas_text(plan)},
        {"plan", plan.hash()},
    };
    if (merge.quotas) {
        rows.push_back({"quotas", quotas_text(*merge.quotas)});
    }
    return rows;
}

std::string ledger_text(const plan::Ledger& ledger) {
    std::vector<std::vector<std::string>> cells{
        {"  stored", "", std::to_string(ledger.stored), ""},
        {"  used", "", std::to_string(ledger.consumed), ""},
        {"  replicas", "", std::to_string(ledger.replica), ""},
        {"  padding", "", std::to_string(ledger.padding), ""}};
    for (const catalogue::Ignored& ignored : ledger.ignored) {
        cells.push_back({"  ignored " + printable(ignored.pattern), std::to_string(ignored.count),
                         std::to_string(ignored.bytes), printable(ignored.reason)});
    }
    return "input bytes\n" + table({Align::left, Align::right, Align::right, Align::left}, cells);
}

ordered_json by_rank(const std::vector<plan::RankTraffic>& ranks,
                     Bytes plan::RankTraffic::*figure) {
    ordered_json values = ordered_json::array();
    for (const plan::RankTraffic& rank : ranks) {
        values.push_back(rank.*figure);
    }
    return values;
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
    merge.supposed = {kMemoryLimit, has_spare_core(on_node), on_node};
    return merge;
}

PlannedMerge planned_merge(const Run& run, Merge& from, Figures figures) {
    Output& output = from.first();
    PlannedMerge merge;
    merge.input = run.report->input.directory;
    merge.format = run.report->input.format;
    merge.options = way_of(run.job, output.asked()).options;
    merge.recipe = output.model.recipe->name;
    merge.memory = from.forecast(run.comm);
    merge.files = std::move(from.input.files);
    merge.plan = std::move(output.plan);
    merge.factors = std::move(from.factors);
    merge.figures = std::move(figures);
    merge.ledger = output.report.ledger;
    merge.warnings = run.report->warnings;
    merge.trace = std::move(from.trace);
    merge.quotas = output.report.quotas;
    merge.n_reads = from.input.n_reads;
    return merge;
}

Figures figures_of(const plan::Plan& plan) {
    using plan::FileTraffic;
    using plan::RankTraffic;
    using plan::spread_of;
    Figures figures;
    plan::Traffic traffic = traffic_of(plan);
    figures.written = spread_of(traffic.ranks, &RankTraffic::bytes_written);
    figures.read = spread_of(traffic.ranks, &RankTraffic::bytes_read);
    figures.readers = spread_of(traffic.inputs, &FileTraffic::ranks);
    figures.writers = spread_of(traffic.outputs, &FileTraffic::ranks);
    for (const RankTraffic& rank : traffic.ranks) {
        figures.network_bytes += rank.bytes_sent;
        figures.read_over_bytes += rank.bytes_read_over;
        figures.reads += rank.reads;
        figures.messages += rank.messages_sent;
        figures.rounds = std::max(figures.rounds, rank.rounds);
    }
    figures.buffer_bytes = plan.limits.total();
    figures.metadata_bytes = plan::metadata_bytes(plan);
    figures.traffic = std::move(traffic);
    return figures;
}

/// A line for each file that tensors are read from: its bytes, a blank, its path.
std::string inputs_text(const PlannedMerge& merge) {
    std::string text;
    for (const catalogue::File& file : merge.files) {
        text +=
            std::to_string(file.size) + " " + (fs::path(merge.input) / file.path).string() + "\n";
    }
    return text;
}

/// Fields are never renamed or removed.
std::string plan_json(const PlannedMerge& merge) {
    const plan::Plan& plan = merge.plan;
    const Figures& figures = merge.figures;
    ordered_json json = {
        {"schema", kPlanSchema},  {"ok", merge.has_room},
        {"dir", merge.input},     {"input", {{"dir", merge.input}, {"format", merge.format}}},
        {"recipe", merge.recipe}, {"ranks", plan.n_ranks()},
        {"hash", plan.hash()},    {"strategy", std::string(plan::name_of(plan.strategy))},
        {"why", plan.why},        {"options", merge.options}};
    json["tensor_bytes"] = plan.placement.tensor_bytes;
    json["total_bytes"] = plan.placement.total_bytes();
    json["written_by_rank"] = by_rank(figures.traffic.ranks, &plan::RankTraffic::bytes_written);
    json["imbalance"] = figures.written.imbalance();
    json["read_by_rank"] = by_rank(figures.traffic.ranks, &plan::RankTraffic::bytes_read);
    json["read_imbalance"] = figures.read.imbalance();
    json["read_over_bytes"] = figures.read_over_bytes;
    json["reads"] = figures.reads;
    json["readers_per_file"] = most_json(figures.readers);
    json["writers_per_file"] = most_json(figures.writers);
    json["buffer_bytes"] = figures.buffer_bytes;
    json["metadata_bytes"] = figures.metadata_bytes;
    json["metadata_reads"] = merge.n_reads;
    json["metadata_s"] = merge.metadata_s;
    json["peak_bytes"] = merge.memory.peak();
    json["memory"] = {
        {"base_bytes", merge.memory.base},      {"metadata_bytes", merge.memory.metadata},
        {"plan_bytes", merge.memory.plan},      {"making_bytes", merge.memory.making},
        {"buffer_bytes", merge.memory.buffers}, {"limit_bytes", plan.limits.total()},
        {"read_ahead", plan.limits.ahead > 0}};
    json["network_bytes"] = figures.network_bytes;
    json["sent_by_rank"] = by_rank(figures.traffic.ranks, &plan::RankTraffic::bytes_sent);
    json["messages"] = figures.messages;
    json["rounds"] = figures.rounds;
    json["is_estimate"] = !plan.placement.is_settled;
    json["replicas"] = {{"bytes", plan.replica_bytes},
                        {"equal_bytes", plan.equal_bytes},
                        {"compared_bytes", plan.compared_bytes}};
    json["quotas"] = quotas_json(merge.quotas);
    json["files"] = files_json(plan);
    json["tensors"] =
        json_list(tensor_entries(plan, merge.files, {}, merge.factors ? &*merge.factors : nullptr));
    json["ledger"] = json_of(merge.ledger);
    json["warnings"] = json_list(merge.warnings);
    json["target"] =
        merge.target.empty() ? ordered_json() : ordered_json(fs::absolute(merge.target).string());
    json["bytes_free"] = merge.bytes_free ? ordered_json(*merge.bytes_free) : ordered_json();
    json["merge_words"] = merge.words;
    json["advice"] = merge.advice ? advice_json(*merge.advice) : ordered_json();
    return json_text(json);
}

PlannedMerge advised(const Run& run, Merge& from, bool has_room) {
    const Job& job = run.job;
    Figures figures = figures_of(from.first().plan);
    const plan::Machine machine = ordinary_machine();
    const double metadata_s =
        metadata_seconds(from, job.run.n_ranks, from.resources().ranks_on_node, machine);
    std::optional<Advice> advice;
    if (!job.run.lists_inputs) {
        advice = advise(from, figures.traffic, machine, job, run.comm);
    }
    PlannedMerge merge = planned_merge(run, from, std::move(figures));
    merge.has_room = has_room;
    merge.metadata_s = metadata_s;
    merge.advice = std::move(advice);
    merge.words = job.merge_words;
    if (job.has("target_dir") || job.run.is_verl) {
        merge.target = job.outputs.front().directory.string();
        merge.bytes_free =
            publish::room_at(publish::holder_of(job.outputs.front().directory), "").bytes_free;
    }
    return merge;
}

void print_planned(const PlannedMerge& merge, const Job& job, std::ostream& out, Log& log) {
    for (const Warning& warning : merge.warnings) {
        log.warning((warning.tensor.empty() ? "" : printable(warning.tensor) + ": ") +
                    warning.text);
    }
    for (const std::string& line : merge.trace) {
        log.trace(printable(line));
    }
    out << (job.run.lists_inputs ? inputs_text(merge)
            : job.run.json       ? plan_json(merge)
                                 : plan_text(merge, job.run.log_level == LogLevel::debug));
    if (job.run.strict && !merge.warnings.empty()) {
        throw Error(
            ErrorCode::strict,
            counted(merge.warnings.size(), "warning") + " under --strict: the merge would fail",
            "see to what is warned of, or leave --strict out");
    }
}

}  // namespace

std::string plan_text(const PlannedMerge& merge, bool is_each_shown) {
    return answer_text(merge) + "\n" +
           (merge.advice ? advice_text(*merge.advice, merge.memory) + "\n" : "") +
           table({Align::left, Align::left}, plan_rows(merge)) + "\n" +
           files_table(merge.plan, is_each_shown) + "\n" + ledger_text(merge.ledger);
}

PlannedMerge plan_merge(mpi::Comm& comm, const Job& job) {
    Events nobody;
    Log silent(nobody, false);
    const Run run = begin_run(comm, job, silent);
    Merge merge = begin_plan(run);
    find_inputs(run, merge);
    plan_found(run, merge);
    return planned_merge(run, merge, figures_of(merge.first().plan));
}

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
                if (comm.rank() == 0) {
                    print_planned(advised(run, merge, has_room), job, out, log);
                }
            };
            preflight.check([&] { mpi::collectively(comm, print); });
        }
    }
    preflight.require_none();
    return 0;
}

}  // namespace shardweld::app

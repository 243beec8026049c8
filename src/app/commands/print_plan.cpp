#include "print_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/merge/preflight.hpp"
#include "app/merge/resumption.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "app/runtime/memory.hpp"
#include "core/system.hpp"
#include "core/text.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/footprint.hpp"
#include "process/process.hpp"
#include "publish/room.hpp"
#include "publish/target.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"

namespace shardweld::app {

/// The text of slurm/job.sh, which merges with `target` and `program`. The build makes it.
std::string_view job_functions();

namespace {

using nlohmann::ordered_json;

constexpr int kPlanSchema = 1;

// What follows a size that only creating the files tells exactly.
constexpr const char* kEstimated = " (sizes and offsets are estimates)";

std::string ratio_text(double ratio) {
    std::array<char, 32> text{};
    (void)std::snprintf(text.data(), text.size(), "%.3f", ratio);
    return text.data();
}

/// "2.0 GB to 2.1 GB, mean 2.0 GB, busiest / mean 1.020"
std::string spread_text(const plan::Spread& spread) {
    return human_bytes(static_cast<Bytes>(spread.least)) + " to " +
           human_bytes(static_cast<Bytes>(spread.most)) + ", mean " +
           human_bytes(static_cast<Bytes>(spread.mean)) + ", busiest / mean " +
           ratio_text(spread.imbalance());
}

/// "at most 3, mean 1.250"
std::string most_text(const plan::Spread& spread) {
    return "at most " + std::to_string(static_cast<Index>(spread.most)) + ", mean " +
           ratio_text(spread.mean);
}

std::string files_table(const plan::Plan& plan) {
    std::vector<std::vector<std::string>> cells{{"file", "tensors", "bytes"}};
    for (const outputs::PlacedFile& file : plan.placement.files) {
        cells.push_back(
            {file.name, std::to_string(file.tensors.size()), std::to_string(file.size)});
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
    const auto commands = rows.end() - (merge.advice ? kCommands : 0);
    std::vector<std::vector<std::string>> last(commands, rows.end());
    rows.erase(commands, rows.end());
    rows.push_back({"would write",
                    output_text(merge.plan) + (merge.target.empty() ? "" : " to " + merge.target)});
    rows.push_back(
        {"fits", merge.bytes_free
                     ? "yes: " + human_bytes(*merge.bytes_free) + " are free there"
                     : "unknown: name a target (plan DIR OUT) to have its room checked"});
    rows.insert(rows.end(), last.begin(), last.end());
    return table({Align::left, Align::left}, rows);
}

std::vector<std::vector<std::string>> plan_rows(const PlannedMerge& merge) {
    const Figures& figures = merge.figures;
    const plan::Plan& plan = merge.plan;
    std::vector<std::vector<std::string>> rows{
        {"checkpoint", merge.input},
        {"format", merge.format},
        {"recipe", merge.recipe},
        {"output", output_text(plan)},
        {"ranks", std::to_string(plan.n_ranks())},
        {"written by a rank", spread_text(figures.written)},
        {"read by a rank", spread_text(figures.read)},
        {"reads", std::to_string(figures.reads) + ", " + human_bytes(figures.read_over_bytes) +
                      " in gaps between short runs"},
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

// A rank's part of the job's memory is at least this: half of it is what buffers may take by
// default, so the merge makes the plan that is shown here.
constexpr Bytes kLeastMemory = 512 * kMiB;
constexpr Bytes kMemoryStep = 64 * kMiB;
// One thread reads ahead while another exchanges and writes.
constexpr Bytes kCoresOfRank = 2;
// Starting, reading metadata, the last fsync.
constexpr Bytes kStartSeconds = 300;
constexpr Bytes kTimeStep = 300;

Bytes rounded_up(Bytes value, Bytes step) {
    return (value + step - 1) / step * step;
}

Bytes moved_bytes(const PlannedMerge& merge) {
    Bytes bytes = 0;
    for (const plan::RankTraffic& rank : merge.figures.traffic.ranks) {
        bytes += rank.bytes_read + rank.bytes_written;
    }
    return bytes;
}

/// "26:05:00"; Slurm takes any number of hours.
std::string clock_text(Bytes seconds) {
    std::array<char, 32> text{};
    (void)std::snprintf(text.data(), text.size(), "%02llu:%02llu:%02llu",
                        static_cast<unsigned long long>(seconds / 3600),
                        static_cast<unsigned long long>(seconds / 60 % 60),
                        static_cast<unsigned long long>(seconds % 60));
    return text.data();
}

/// What a core is given, so that a rank gets the peak and a quarter, and 64 MiB.
Bytes core_mebibytes(Bytes peak) {
    const Bytes wanted = std::max(kLeastMemory, peak + peak / 4 + 64 * kMiB);
    return rounded_up(wanted, kMemoryStep * kCoresOfRank) / kCoresOfRank / kMiB;
}

/// This program; its name where the system does not tell.
std::string own_path() {
    std::error_code failed;
    const fs::path path = fs::read_symlink("/proc/self/exe", failed);
    return failed ? "shardweld" : path.string();
}

std::string words_text(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
        text += (word.starts_with("--") ? " \\\n    " : " ") + process::shell_word(word);
    }
    return text;
}

/// Seconds of a time as sinfo prints it ("1-02:30:00", "30:00"); nullopt where it is none
/// ("infinite").
std::optional<Bytes> seconds_in(std::string_view text) {
    Bytes hours = 0;  // of the days
    if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
        const auto days = parse_index(std::string(text.substr(0, dash)));
        if (!days) {
            return std::nullopt;
        }
        hours = static_cast<Bytes>(*days) * 24;
        text.remove_prefix(dash + 1);
    }
    Bytes seconds = 0;
    for (const std::string_view part : split(text, ':')) {
        const auto number = parse_index(std::string(part));
        if (!number) {
            return std::nullopt;
        }
        seconds = seconds * 60 + hours + static_cast<Bytes>(*number);
        hours = 0;
    }
    return seconds;
}

/// The longest time of a job in the default partition, where there is a Slurm that tells.
std::optional<Bytes> partition_limit() {
    constexpr double kAnswerSeconds = 10;
    const auto sinfo = process::find_program("sinfo", variable("PATH").value_or(""));
    std::optional<Bytes> limit;
    if (sinfo) {
        process::Process ask{*sinfo, {"-h", "-o", "%P %l"}, {}, kAnswerSeconds, {}};
        ask.on_line = [&](std::string_view line) {
            const std::size_t mark = line.find("* ");
            limit =
                mark == std::string_view::npos ? limit : seconds_in(trim(line.substr(mark + 2)));
        };
        (void)process::run(ask);
    }
    return limit;
}

/// The job's time, and why; at most what the partition allows, as the job queues again.
std::string time_text(Bytes wanted) {
    const auto limit = partition_limit();
    const Bytes seconds = std::min(wanted, limit.value_or(wanted));
    return (seconds < wanted ? "# It wants " + clock_text(wanted) +
                                   ", which the partition does not give: the job queues again.\n"
                             : "") +
           "#SBATCH --time=" + clock_text(seconds) + "\n";
}

std::string resources_text(const PlannedMerge& merge, const JobRequest& job) {
    const Bytes moved = moved_bytes(merge);
    const Bytes seconds = rounded_up(
        kStartSeconds + static_cast<Bytes>(merge.metadata_s) + moved / job.rate, kTimeStep);
    const int on_node = (merge.plan.n_ranks() + job.n_nodes - 1) / job.n_nodes;
    return "#SBATCH --job-name=shardweld\n#SBATCH --nodes=" + std::to_string(job.n_nodes) +
           "\n#SBATCH --ntasks=" + std::to_string(merge.plan.n_ranks()) +
           "\n#SBATCH --ntasks-per-node=" + std::to_string(on_node) +
           "\n# A second core lets a rank read ahead.\n#SBATCH --cpus-per-task=" +
           std::to_string(kCoresOfRank) + "\n# The forecast for a rank is " +
           human_bytes(merge.memory.peak()) + "; the page cache counts, and gives way.\n" +
           "#SBATCH --mem-per-cpu=" + std::to_string(core_mebibytes(merge.memory.peak())) +
           "M\n# " + human_bytes(moved) + " to read and write, at " + human_bytes(job.rate) +
           " a second; --rate gives another speed.\n" + time_text(seconds);
}

// Slurm's documentation: sbatch(1) on --signal (without "B:" it goes to the steps) and --requeue.
constexpr const char* kResuming =
    "# Two minutes before the end ranks are told to stop; the job then queues again and goes on.\n"
    "#SBATCH --signal=USR1@120\n"
    "#SBATCH --requeue\n"
    "#SBATCH --open-mode=append\n";

/// A script that merges with the plan's ranks, is told before its time limit, and resumes. Memory
/// is the forecast's peak with room beside it; time is the plan's bytes at the job's rate.
std::string job_script(const PlannedMerge& merge, const JobRequest& job) {
    return "#!/bin/bash\n# Merges " + printable(merge.input) + " (" + merge.format + ") into " +
           human_bytes(merge.plan.placement.total_bytes()) + ".\n" + resources_text(merge, job) +
           kResuming + "set -euo pipefail\ntarget=" + process::shell_word(job.target.string()) +
           "\nprogram=" + process::shell_word(own_path()) + "\n\n" + std::string(job_functions()) +
           "\nbegin_job\nmerge_to_end" + words_text(job.words) + "\n";
}

// Plans are for another machine: this one's limits say nothing.
constexpr Bytes kMemoryLimit = Bytes{256} << 20U;

/// Ranks of a node: those of the job that is asked for, else as many as on the nodes that forecasts
/// suppose.
int ranks_on_node(const Options& options, const plan::Machine& machine) {
    return options.job ? (options.n_ranks + options.job->n_nodes - 1) / options.job->n_nodes
                       : std::min(options.n_ranks, machine.shared.ranks_per_node);
}

PlanRequest request_for(const Options& options) {
    const int on_node = ranks_on_node(options, ordinary_machine());
    return merge_request(
        options, PlannedRanks{options.n_ranks, {kMemoryLimit, has_spare_core(on_node), on_node}});
}

PlannedMerge planned_merge(Planned planned, Figures figures) {
    Output& output = planned.first();
    const Session& session = output.session;
    PlannedMerge merge;
    merge.input = session.run.input.directory;
    merge.format = session.run.input.format;
    merge.options = way_of(session).options;
    merge.recipe = output.model.prepared.recipe->name;
    merge.memory = planned.forecast(session.comm);
    merge.files = std::move(planned.input.files);
    merge.plan = std::move(output.plan);
    merge.factors = std::move(planned.factors);
    merge.figures = std::move(figures);
    merge.ledger = session.report.ledger;
    merge.warnings = session.warnings;
    merge.trace = std::move(planned.trace);
    merge.quotas = session.report.quotas;
    merge.n_reads = planned.input.n_reads;
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
        {"schema", kPlanSchema},  {"input", {{"dir", merge.input}, {"format", merge.format}}},
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
    json["advice"] = merge.advice ? advice_json(*merge.advice) : ordered_json();
    return json_text(json);
}

PlannedMerge advised(const Options& options, Preparation ready) {
    const Output& output = ready.planned.first();
    Figures figures = figures_of(output.plan);
    const Basis basis{ordinary_machine(), output.session.comm};
    const double metadata_s = metadata_seconds(ready.planned, options.n_ranks,
                                               ready.planned.resources.ranks_on_node, basis);
    std::optional<Advice> advice;
    if (!options.job && !options.lists_inputs) {
        advice = advise(ready.planned, figures.traffic, basis);
    }
    PlannedMerge merge = planned_merge(std::move(ready.planned), std::move(figures));
    merge.metadata_s = metadata_s;
    merge.advice = std::move(advice);
    merge.words = options.merge_words;
    if (options.has_target) {
        merge.target = options.target_dir.string();
        merge.bytes_free = publish::room_at(publish::holder_of(options.target_dir), "").bytes_free;
    }
    return merge;
}

void print_planned(const PlannedMerge& merge, const Options& options, std::ostream& out, Log& log) {
    for (const plan::Warning& warning : merge.warnings) {
        log.warning((warning.tensor.empty() ? "" : printable(warning.tensor) + ": ") +
                    warning.text);
    }
    for (const std::string& line : merge.trace) {
        log.trace(printable(line));
    }
    out << (options.job            ? job_script(merge, *options.job)
            : options.lists_inputs ? inputs_text(merge)
            : options.json         ? plan_json(merge)
                                   : plan_text(merge));
    if (options.strict && !merge.warnings.empty()) {
        throw Error(
            ErrorCode::strict,
            counted(merge.warnings.size(), "warning") + " under --strict: the merge would fail",
            "see to what is warned of, or leave --strict out");
    }
}

}  // namespace

std::string plan_text(const PlannedMerge& merge) {
    return answer_text(merge) + "\n" + table({Align::left, Align::left}, plan_rows(merge)) + "\n" +
           files_table(merge.plan) + "\n" + ledger_text(merge.ledger) +
           (merge.advice ? "\n" + advice_text(*merge.advice, merge.memory) : "");
}

PlannedMerge plan_merge(mpi::Comm& comm, const Options& options) {
    Events nobody;
    Log silent(nobody, false);
    const Run run(comm, options, silent);
    Session session = run.session();
    const PlanRequest request = request_for(options);
    Planned planned = plan_outputs(run.outputs(), request, find_sources(session, request));
    Figures figures = figures_of(planned.first().plan);
    return planned_merge(std::move(planned), std::move(figures));
}

int print_plan(mpi::Comm& comm, const Options& options, std::ostream& out, Log& log) {
    // What is found stands in the report, and is shown with the plan.
    Events nobody;
    Log silent(nobody, false);
    const Run run(comm, options, output_requests(options), silent, log);
    Preparation ready;
    Preflight preflight;
    check_before_reading(run.outputs(), preflight, ready, options.has_target);
    if (ready.sources && preflight.check([&] {
            ready.planned =
                plan_outputs(run.outputs(), request_for(options), *std::move(ready.sources));
        })) {
        if (options.has_target) {
            check_target_place(preflight, ready);
        }
        const auto print = [&] {
            if (comm.rank() == 0) {
                print_planned(advised(options, std::move(ready)), options, out, log);
            }
        };
        preflight.check([&] { mpi::collectively(comm, print); });
    }
    preflight.require_none();
    return 0;
}

}  // namespace shardweld::app

#include "print_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "app/merge/preflight.hpp"
#include "app/runtime/memory.hpp"
#include "core/text.hpp"
#include "plan/plan.hpp"
#include "process/shell.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"
#include "plan_shown.hpp"

namespace shardweld::app {

/// What slurm/resume.sbatch does with the arrays `step` and `merge` and with `target`: the text
/// behind its mark. The build makes it.
std::string_view end_of_job_script();

namespace {

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

std::string resources_text(const PlannedMerge& merge, const JobRequest& job) {
    const Bytes moved = moved_bytes(merge);
    const Bytes seconds = rounded_up(
        kStartSeconds + static_cast<Bytes>(merge.metadata_s) + moved / job.rate, kTimeStep);
    return "#SBATCH --job-name=shardweld\n#SBATCH --nodes=" + std::to_string(job.n_nodes) +
           "\n#SBATCH --ntasks=" + std::to_string(merge.plan.n_ranks()) +
           "\n# A second core lets a rank read ahead.\n#SBATCH --cpus-per-task=" +
           std::to_string(kCoresOfRank) + "\n# The forecast for a rank is " +
           human_bytes(merge.memory.peak()) + "; the page cache counts, and gives way.\n" +
           "#SBATCH --mem-per-cpu=" + std::to_string(core_mebibytes(merge.memory.peak())) +
           "M\n# " + human_bytes(moved) + " to read and write, at " + human_bytes(job.rate) +
           " a second; --rate gives another speed.\n#SBATCH --time=" + clock_text(seconds) + "\n";
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
           "\nstep=(srun --mpi=pmix -K -c " + std::to_string(kCoresOfRank) + " " +
           process::shell_word(own_path()) + ")\nmerge=(merge --resume" + words_text(job.words) +
           ")\n\n" + std::string(end_of_job_script());
}

// Plans are for another machine: this one's limits say nothing.
constexpr Bytes kMemoryLimit = Bytes{256} << 20U;

/// Ranks of a node: those of the job that is asked for, else as many as on the nodes that forecasts
/// suppose.
int ranks_on_node(const Options& options, const plan::Machine& machine) {
    return options.job ? (options.n_ranks + options.job->n_nodes - 1) / options.job->n_nodes
                       : std::min(options.n_ranks, machine.shared.ranks_per_node);
}

Planned plan_for(const Outputs& outputs, const Options& options, Sources sources,
                 const std::optional<MeasuredRoof>& roof = {}) {
    const int on_node = ranks_on_node(options, supposed(roof).machine);
    const PlannedRanks ranks{options.n_ranks, {kMemoryLimit, has_spare_core(on_node), on_node}};
    return make_ready(outputs, merge_request(options, ranks), std::move(sources));
}

PlannedMerge planned_merge(Planned planned, Figures figures) {
    Output& output = planned.first();
    const Report& report = output.session.report;
    PlannedMerge merge;
    merge.input = report.input_directory;
    merge.format = report.input_format;
    merge.recipe = output.model.prepared.recipe->name;
    merge.memory = planned.forecast(output.session.comm);
    merge.files = std::move(planned.input.files);
    merge.plan = std::move(output.plan);
    merge.figures = std::move(figures);
    merge.ledger = report.ledger;
    merge.warnings = report.warnings;
    merge.trace = std::move(planned.trace);
    merge.quotas = report.quotas;
    merge.n_reads = planned.input.n_reads;
    return merge;
}

PlannedMerge advised(const Options& options, Preparation ready) {
    const Output& output = ready.planned.first();
    Figures figures = figures_of(output.plan);
    const Basis basis{supposed(ready.roof), output.session.comm};
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

PlannedMerge plan_merge(mpi::Comm& comm, const Options& options) {
    Events nobody;
    Log silent(nobody, false);
    const Run run(comm, options, silent);
    Session session = run.session();
    Planned planned =
        plan_for(run.outputs(), options, find_sources(session, merge_request(options)));
    Figures figures = figures_of(planned.first().plan);
    return planned_merge(std::move(planned), std::move(figures));
}

int print_plan(mpi::Comm& comm, const Options& options, std::ostream& out, Log& log) {
    // What is found stands in the report, and is shown with the plan.
    Events nobody;
    Log silent(nobody, false);
    const Run run(comm, options, silent, log);
    Preparation ready;
    Preflight preflight;
    check_before_reading(run.outputs(), preflight, ready, options.has_target, options.n_ranks, log);
    if (ready.sources && preflight.check([&] {
            ready.planned = plan_for(run.outputs(), options, *std::move(ready.sources), ready.roof);
        })) {
        if (options.has_target) {
            check_target_place(preflight, ready);
        }
        preflight.check([&] {
            mpi::collectively(comm, [&] {
                if (comm.rank() == 0) {
                    print_planned(advised(options, std::move(ready)), options, out, log);
                }
            });
        });
    }
    preflight.require_none();
    return 0;
}

}  // namespace shardweld::app

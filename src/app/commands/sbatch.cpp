#include "sbatch.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/text.hpp"
#include "plan/plan.hpp"
#include "process/shell.hpp"

namespace shardweld::app {

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

}  // namespace

std::string job_script(const PlannedMerge& merge, const JobRequest& job) {
    return "#!/bin/bash\n# Merges " + printable(merge.input) + " (" + merge.format + ") into " +
           human_bytes(merge.plan.placement.total_bytes()) + ".\n" + resources_text(merge, job) +
           kResuming + "set -euo pipefail\ntarget=" + process::shell_word(job.target.string()) +
           "\nstep=(srun --mpi=pmix -K -c " + std::to_string(kCoresOfRank) + " " +
           process::shell_word(own_path()) + ")\nmerge=(merge --resume" + words_text(job.words) +
           ")\n\n" + std::string(end_of_job_script());
}

}  // namespace shardweld::app

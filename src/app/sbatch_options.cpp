#include "sbatch_options.hpp"

#include "option_reader.hpp"

namespace shardweld::app {

namespace {

constexpr int kRanksOfNode = 4;
constexpr Index kMostNodes = 100'000;

bool names_a_path(const OptionLine& line) {
    return line.argument == "DIR" || line.argument == "FILE" || line.argument == "PATH";
}

/// The options that merge takes as well, with absolute paths: a job may start elsewhere.
std::vector<std::string> merge_words(const Arguments& arguments, const Options& options) {
    std::vector<std::string> words;
    for (const OptionLine& line : option_lines()) {
        const auto given = arguments.values.find(std::string(line.name));
        if ((line.commands & kMerge) == 0 || given == arguments.values.end()) {
            continue;
        }
        words.push_back("--" + given->first);
        if (!line.argument.empty()) {
            words.push_back(names_a_path(line) ? fs::absolute(given->second).string()
                                               : given->second);
        }
    }
    const fs::path target = fs::absolute(options.target_dir);
    if (!arguments.has("target_dir")) {
        words.insert(words.end(), {"--target_dir", target.string()});
    }
    if (!arguments.has("report")) {
        words.insert(words.end(), {"--report", target.string() + ".report.json"});
    }
    return words;
}

}  // namespace

void read_job(const Arguments& arguments, Options& options) {
    const OptionReader reader(arguments);
    if (!reader.has("sbatch")) {
        if (reader.has("nodes") || reader.has("rate")) {
            refuse("--nodes and --rate are about job scripts: give --sbatch too");
        }
        return;
    }
    if (options.json) {
        refuse("--sbatch and --json exclude each other: give one of them");
    }
    JobRequest job;
    const Index nodes = reader.number("nodes", 1).value_or(1);
    if (nodes > kMostNodes) {
        refuse("--nodes " + std::to_string(nodes) + " is more than any cluster has");
    }
    job.n_nodes = static_cast<int>(nodes);
    job.rate = reader.size("rate").value_or(job.rate);
    if (!reader.has("ranks")) {
        options.n_ranks = kRanksOfNode * job.n_nodes;
    }
    if (options.n_ranks < job.n_nodes) {
        refuse("--nodes " + std::to_string(job.n_nodes) + " are more than --ranks " +
               std::to_string(options.n_ranks) + ": give each node a rank at least");
    }
    job.words = merge_words(arguments, options);
    options.job = std::move(job);
}

}  // namespace shardweld::app

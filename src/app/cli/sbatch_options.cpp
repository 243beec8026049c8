#include "sbatch_options.hpp"

#include "option_reader.hpp"

namespace shardweld::app {

namespace {

constexpr int kRanksOfNode = 4;
constexpr Index kMostNodes = kMostRanks / kRanksOfNode;

bool names_a_path(const OptionLine& line) {
    return line.argument == "DIR" || line.argument == "FILE" || line.argument == "PATH";
}

/// The options that another command takes as well, with absolute paths: a job may start elsewhere.
/// The script gives --resume itself.
std::vector<std::string> words_for(unsigned command, const Arguments& arguments) {
    std::vector<std::string> words;
    for (const OptionLine& line : option_lines()) {
        const auto given = arguments.values.find(std::string(line.name));
        const bool is_of_merge =
            line.name == "report" || line.name == "trace" || line.name == "check_crc";
        if ((line.commands & command) == 0 || given == arguments.values.end() ||
            (command != kMerge && is_of_merge) || line.name == "resume") {
            continue;
        }
        const std::string value =
            names_a_path(line) ? fs::absolute(given->second).string() : given->second;
        if (line.argument.empty()) {
            words.push_back("--" + given->first);
        } else if (value.starts_with("-")) {
            words.push_back("--" + given->first + "=" + value);
        } else {
            words.insert(words.end(), {"--" + given->first, value});
        }
    }
    return words;
}

std::vector<std::string> merge_words(const Arguments& arguments, const fs::path& target) {
    std::vector<std::string> words = words_for(kMerge, arguments);
    if (!arguments.has("target_dir")) {
        words.insert(words.end(), {"--target_dir", target.string()});
    }
    if (!arguments.has("report")) {
        words.insert(words.end(), {"--report", target.string() + ".report.json"});
    }
    return words;
}

/// Exactly what a merge would write: an older model may be nearly equal.
std::vector<std::string> test_words(const Arguments& arguments, const fs::path& target) {
    std::vector<std::string> words = words_for(kTest, arguments);
    words.insert(words.end(), {"--test_hf_dir", target.string(), "--strict_dtype", "--atol", "0",
                               "--rtol", "0"});
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
    job.target = fs::absolute(options.target_dir);
    job.words = merge_words(arguments, job.target);
    job.test_words = test_words(arguments, job.target);
    job.is_uploaded = !options.upload_path.empty();
    options.job = std::move(job);
}

}  // namespace shardweld::app

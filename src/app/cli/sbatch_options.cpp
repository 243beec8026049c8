#include "sbatch_options.hpp"

#include "app/settings/option_table.hpp"
#include "core/text.hpp"

namespace shardweld::app {

namespace {

enum class Paths { as_given, absolute };  // a job may start elsewhere

/// The options that a merge takes as well.
std::vector<std::string> words_for_merge(const Arguments& arguments, Paths paths) {
    std::vector<std::string> words;
    for (const OptionRow& row : option_rows()) {
        const auto given = arguments.values.find(row.name);
        if (given == arguments.values.end() || !row.is_given_to(Command::merge)) {
            continue;
        }
        const std::string name = "--" + given->first;
        for (const std::string_view text : split(given->second, kNextValue)) {
            const std::string value = row.names_path() && paths == Paths::absolute
                                          ? fs::absolute(text).string()
                                          : std::string(text);
            if (row.is_flag()) {
                words.push_back(name);
            } else if (value.starts_with("-")) {
                words.push_back(name + "=" + value);
            } else {
                words.insert(words.end(), {name, value});
            }
        }
    }
    for (const std::string& checkpoint : arguments.checkpoints) {
        words.push_back(paths == Paths::absolute ? fs::absolute(checkpoint).string() : checkpoint);
    }
    return words;
}

std::vector<std::string> merge_words(const Arguments& arguments, const fs::path& target) {
    std::vector<std::string> words = words_for_merge(arguments, Paths::absolute);
    if (!arguments.has("target_dir")) {
        words.insert(words.end(), {"--target_dir", target.string()});
    }
    if (!arguments.has("report")) {
        words.insert(words.end(), {"--report", target.string() + ".report.json"});
    }
    if (!arguments.has("if_complete")) {  // a run may end between publishing and its own end
        words.insert(words.end(), {"--if_complete", "verify"});
    }
    return words;
}

/// With the directory, which may be given without its option, and a place to write to.
std::vector<std::string> words_to_show(const Arguments& arguments, const fs::path& directory) {
    std::vector<std::string> words = words_for_merge(arguments, Paths::as_given);
    if (!arguments.has("local_dir")) {
        words.insert(words.begin(), {"--local_dir", directory.string()});
    }
    if (!arguments.has("target_dir")) {
        words.insert(words.end(), {"--target_dir", "OUT"});
    }
    return words;
}

}  // namespace

void complete_job(const Arguments& arguments, Options& options) {
    if (options.command == Command::inspect || options.command == Command::plan) {
        options.merge_words = words_to_show(arguments, options.local_dir);
    }
    if (!options.job) {
        return;
    }
    JobRequest& job = *options.job;
    if (!arguments.has("ranks")) {
        options.n_ranks = kRanksOfNode * job.n_nodes;
    }
    job.target = fs::absolute(options.target_dir);
    job.words = merge_words(arguments, job.target);
}

}  // namespace shardweld::app

// The command line as values.
// Knows names, spellings and ranges of options; knows nothing of what they do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shardweld/core/dtype.hpp"
#include "shardweld/formats/format.hpp"
#include "shardweld/plan/plan.hpp"

#include "log.hpp"

namespace shardweld::app {

namespace fs = std::filesystem;

enum class Command { merge, plan, inspect, recipes, help, version };

struct Options {
    Command command = Command::help;
    std::string topic;  ///< recipes: NAME; help: the command it is about; "" if none

    // Input.
    std::string backend = "auto";
    fs::path local_dir;
    std::optional<Index> iteration;
    std::string role;  ///< actor, critic or ""
    std::optional<fs::path> hf_config;
    std::optional<fs::path> recipe;
    std::size_t max_open = 64;

    // Output.
    fs::path target_dir = "tmp";
    std::optional<DType> dtype;
    Bytes max_shard_size = 5'000'000'000;
    bool overwrite = false;
    bool sync = true;
    std::optional<fs::path> report;

    // Model.
    bool tie_word_embedding = false;
    bool is_value_model = false;

    // Execution.
    plan::Strategy strategy = plan::Strategy::automatic;
    plan::Replicas replicas = plan::Replicas::automatic;
    std::optional<Bytes> memory_limit;  ///< not given: default_memory_limit()
    Bytes message_limit = 0;            ///< 0: as large as a round
    bool strict = false;
    int n_ranks = 1;  ///< plan only

    // Messages.
    bool json = false;
    bool is_quiet = false;
    LogLevel log_level = LogLevel::info;
    std::vector<std::string> notes;  ///< options accepted that change nothing, said at debug level
};

/// Parses the command line (argv[0] is skipped). '-' and '_' are equal in option names.
/// Error(usage) says what is wrong with which option; Error(unsupported) for options and commands
/// of verl's mergers that this version does not have.
Options parse_options(const std::vector<std::string>& arguments);

/// The text of `shardweld help [TOPIC]`. Error(usage) for an unknown topic.
std::string help_text(const std::string& topic);

/// What the formats need to know.
formats::Request input_request(const Options& options);

}  // namespace shardweld::app

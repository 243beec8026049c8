#include "options.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "arguments.hpp"
#include "nearest.hpp"
#include "option_table.hpp"

namespace shardweld::app {

namespace {

[[noreturn]] void refuse(const std::string& message) {
    throw Error(ErrorCode::usage, message);
}

/// Reads typed values out of the arguments of one command.
class Reader {
  public:
    explicit Reader(const Arguments& arguments) : arguments_(arguments) {}

    [[nodiscard]] bool has(const std::string& name) const { return arguments_.has(name); }

    [[nodiscard]] std::optional<std::string> text(const std::string& name) const {
        const auto found = arguments_.values.find(name);
        return found == arguments_.values.end() ? std::nullopt : std::optional(found->second);
    }

    [[nodiscard]] std::optional<Bytes> size(const std::string& name) const {
        const auto value = text(name);
        const auto bytes = value ? parse_size(*value) : std::nullopt;
        if (value && (!bytes || *bytes == 0)) {
            refuse("--" + name + " " + printable(*value) +
                   " is not a size: give for example 5GB, 512MiB or a number of bytes");
        }
        return bytes;
    }

    [[nodiscard]] std::optional<Index> number(const std::string& name, Index least) const {
        const auto value = text(name);
        const auto number = value ? parse_index(*value) : std::nullopt;
        if (value && (!number || *number < least || *number > kMostNumber)) {
            refuse("--" + name + " " + printable(*value) + " is not a number from " +
                   std::to_string(least) + " to " + std::to_string(kMostNumber));
        }
        return number;
    }

    /// One of a few words, e.g. {{"auto", Strategy::automatic}, ...}.
    template <typename T>
    [[nodiscard]] std::optional<T> choice(
        const std::string& name, const std::vector<std::pair<std::string, T>>& words) const {
        const auto value = text(name);
        if (!value) {
            return std::nullopt;
        }
        std::string known;
        for (const auto& [word, meaning] : words) {
            if (word == *value) {
                return meaning;
            }
            known += (known.empty() ? "" : ", ") + word;
        }
        refuse("--" + name + " " + printable(*value) + " is none of: " + known);
    }

  private:
    static constexpr Index kMostNumber = std::numeric_limits<int>::max();
    const Arguments& arguments_;
};

void read_backend(const Reader& reader, Options& options) {
    options.backend = reader.text("backend").value_or("auto");
    const std::vector<std::string> later = {"fsdp", "dcp", "hdf5", "deepspeed", "colossalai"};
    if (std::find(later.begin(), later.end(), options.backend) != later.end()) {
        throw Error(ErrorCode::unsupported, "--backend " + options.backend +
                                                " is not in this version yet: it reads megatron");
    }
    (void)reader.choice<int>("backend", {{"auto", 0}, {"megatron", 0}});
}

void read_input(const Reader& reader, Options& options) {
    read_backend(reader, options);
    options.local_dir = reader.text("local_dir").value_or("");
    options.iteration = reader.number("iteration", 0);
    options.role =
        reader.choice<std::string>("role", {{"actor", "actor"}, {"critic", "critic"}}).value_or("");
    const auto older = reader.text("hf_model_path");
    if (older && reader.has("hf_config")) {
        refuse("--hf_config and --hf_model_path mean the same: give one of them");
    }
    if (const auto directory = older ? older : reader.text("hf_config")) {
        options.hf_config = *directory;
    }
    if (older) {
        options.notes.emplace_back("--hf_model_path is taken as --hf_config");
    }
    if (const auto recipe = reader.text("recipe")) {
        options.recipe = *recipe;
    }
    const auto max_open = reader.number("max_open", 1);
    options.max_open = static_cast<std::size_t>(max_open.value_or(64));
    for (const char* flag : {"use_cpu_initialization", "trust_remote_code"}) {
        if (reader.has(flag)) {
            options.notes.push_back(std::string("--") + flag +
                                    " changes nothing: no model is built and no code is run");
        }
    }
}

void read_output(const Reader& reader, Options& options) {
    options.target_dir = reader.text("target_dir").value_or("tmp");
    options.dtype = reader.choice<DType>(
        "dtype", {{"bf16", DType::bf16}, {"fp16", DType::f16}, {"fp32", DType::f32}});
    options.max_shard_size = reader.size("max_shard_size").value_or(options.max_shard_size);
    options.overwrite = reader.has("overwrite");
    options.sync = !reader.has("no_fsync");
    if (const auto report = reader.text("report")) {
        options.report = *report;
    }
}

void read_execution(const Reader& reader, Options& options) {
    using plan::Replicas;
    using plan::Strategy;
    options.tie_word_embedding = reader.has("tie_word_embedding");
    options.is_value_model = reader.has("is_value_model");
    options.strategy = reader
                           .choice<Strategy>("strategy", {{"auto", Strategy::automatic},
                                                          {"collective", Strategy::collective},
                                                          {"direct", Strategy::direct}})
                           .value_or(Strategy::automatic);
    options.replicas = reader
                           .choice<Replicas>("replicas", {{"auto", Replicas::automatic},
                                                          {"verify", Replicas::verify},
                                                          {"trust", Replicas::trust}})
                           .value_or(Replicas::automatic);
    options.memory_limit = reader.size("memory_limit");
    options.message_limit = reader.size("message_limit").value_or(0);
    options.strict = reader.has("strict");
    options.n_ranks = static_cast<int>(reader.number("ranks", 1).value_or(1));
}

void read_messages(const Reader& reader, Options& options) {
    options.json = reader.has("json");
    options.is_quiet = reader.has("quiet");
    const int n_levels = (reader.has("verbose") ? 1 : 0) + (reader.has("quiet") ? 1 : 0) +
                         (reader.has("log_level") ? 1 : 0);
    if (n_levels > 1) {
        refuse("--verbose, --quiet and --log_level exclude each other: give one of them");
    }
    options.log_level = reader
                            .choice<LogLevel>("log_level", {{"error", LogLevel::error},
                                                            {"warning", LogLevel::warning},
                                                            {"info", LogLevel::info},
                                                            {"debug", LogLevel::debug}})
                            .value_or(reader.has("verbose") ? LogLevel::debug
                                      : options.is_quiet    ? LogLevel::error
                                                            : LogLevel::info);
}

void place_others(const CommandLine& command, std::vector<std::string> others, Options& options) {
    const bool takes_one =
        options.command == Command::inspect || options.command == Command::recipes;
    if (!others.empty() && (!takes_one || others.size() > 1)) {
        refuse("unexpected argument " + printable(others.back()) +
               " (usage: " + std::string(command.usage) + ")");
    }
    if (options.command == Command::recipes && !others.empty()) {
        options.topic = others.front();
    } else if (!others.empty()) {
        if (!options.local_dir.empty()) {
            refuse("the checkpoint is given twice: " + options.local_dir.string() + " and " +
                   printable(others.front()));
        }
        options.local_dir = others.front();
    }
    if (options.command != Command::recipes && options.local_dir.empty()) {
        refuse("no checkpoint is given (usage: " + std::string(command.usage) + ")");
    }
}

const CommandLine& find_command(const std::string& name) {
    std::vector<std::string> known{"help"};
    for (const CommandLine& line : command_lines()) {
        if (line.name == name) {
            return line;
        }
        known.emplace_back(line.name);
    }
    if (is_later_command(name)) {
        throw Error(ErrorCode::unsupported, "the command " + name + " is not in this version yet");
    }
    refuse("unknown command " + printable(name) + suggestion(name, known) +
           " (commands: merge, plan, inspect, recipes, help)");
}

bool asks_for_help(const std::string& argument) {
    return argument == "-h" || argument == "--help";
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
    if (arguments.size() < 2) {
        refuse("no command is given (commands: merge, plan, inspect, recipes, help)");
    }
    Options options;
    const std::string& first = arguments[1];
    if (first == "--version" || first == "version") {
        options.command = Command::version;
        return options;
    }
    if (asks_for_help(first) || first == "help") {
        options.topic = arguments.size() > 2 ? arguments[2] : "";
        return options;
    }
    const CommandLine& command = find_command(first);
    const std::vector<std::string> rest(arguments.begin() + 2, arguments.end());
    if (std::any_of(rest.begin(), rest.end(), asks_for_help)) {
        options.topic = command.name;
        return options;
    }
    options.command = command.command;
    const Arguments split = split_arguments(command, rest);
    const Reader reader(split);
    read_input(reader, options);
    read_output(reader, options);
    read_execution(reader, options);
    read_messages(reader, options);
    place_others(command, split.others, options);
    return options;
}

formats::Request input_request(const Options& options) {
    return {options.local_dir, options.backend, options.iteration, options.role};
}

}  // namespace shardweld::app

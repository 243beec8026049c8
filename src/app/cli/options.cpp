#include "options.hpp"

#include <algorithm>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "arguments.hpp"
#include "mesh_option.hpp"
#include "nearest.hpp"
#include "option_reader.hpp"
#include "option_table.hpp"
#include "same_options.hpp"
#include "sbatch_options.hpp"
#include "storage_options.hpp"

namespace shardweld::app {

namespace {

void read_backend(const OptionReader& reader, Options& options) {
    options.backend = reader.text("backend").value_or("auto");
    const std::vector<std::string> later = {"deepspeed", "colossalai", "bytecheckpoint"};
    if (std::find(later.begin(), later.end(), options.backend) != later.end()) {
        throw Error(ErrorCode::unsupported,
                    "--backend " + options.backend +
                        " is not in this version yet: it reads megatron, fsdp, "
                        "dcp, hf and hdf5");
    }
    (void)reader.choice<int>(
        "backend", {{"auto", 0}, {"megatron", 0}, {"fsdp", 0}, {"dcp", 0}, {"hf", 0}, {"hdf5", 0}});
}

void read_input(const OptionReader& reader, Options& options) {
    read_backend(reader, options);
    options.mesh = read_mesh(reader);
    options.prefix = reader.text("prefix").value_or("");
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
    options.check_crc = reader
                            .choice<CheckCrc>("check_crc", {{"before", CheckCrc::before},
                                                            {"during", CheckCrc::during},
                                                            {"off", CheckCrc::off}})
                            .value_or(CheckCrc::during);
    const auto max_open = reader.number("max_open", 1);
    options.max_open = static_cast<std::size_t>(max_open.value_or(64));
    for (const char* flag : {"use_cpu_initialization", "trust_remote_code"}) {
        if (reader.has(flag)) {
            options.notes.push_back(std::string("--") + flag +
                                    " changes nothing: no model is built and no code is run");
        }
    }
}

void read_output(const OptionReader& reader, Options& options) {
    options.target_dir = reader.text("target_dir").value_or("tmp");
    options.has_target = reader.has("target_dir");
    options.dtype = reader.choice<DType>(
        "dtype", {{"bf16", DType::bf16}, {"fp16", DType::f16}, {"fp32", DType::f32}});
    options.max_shard_size = reader.size("max_shard_size").value_or(options.max_shard_size);
    options.overwrite = reader.has("overwrite");
    options.sync = !reader.has("no_fsync");
    options.is_direct = reader.has("direct_io");
    std::vector<std::pair<std::string, const outputs::Format*>> formats;
    for (const outputs::Format* const format : outputs::all_formats()) {
        formats.emplace_back(format->name(), format);
    }
    options.output_format =
        reader.choice("output_format", formats).value_or(&outputs::default_format());
    if (const auto report = reader.text("report")) {
        options.report = *report;
    }
    options.sha256 = reader.has("sha256");
    options.paranoid = reader.has("paranoid");
    if (options.sha256 && !options.report) {
        refuse("--sha256 needs the report that holds the checksums: --report FILE");
    }
}

void read_model(const OptionReader& reader, Options& options) {
    options.tie_word_embedding = reader.has("tie_word_embedding");
    options.is_value_model = reader.has("is_value_model");
    options.vocab_size = reader.number("vocab_size", 1);
    options.names = reader.choice<Names>("names", {{"hub", Names::hub}, {"module", Names::module}})
                        .value_or(Names::hub);
    options.selection = {reader.text("include"), reader.text("exclude")};
    check_selection(options.selection);
    options.lora =
        reader
            .choice<Lora>("lora",
                          {{"split", Lora::split}, {"fold", Lora::fold}, {"drop", Lora::drop}})
            .value_or(Lora::split);
    options.lora_alpha = reader.real("lora_alpha");
    if (options.lora_alpha && *options.lora_alpha == 0) {
        refuse("--lora_alpha 0 would switch the adapter off: give the alpha it was trained with");
    }
    if (const auto base = reader.text("base")) {
        options.base = *base;
    }
}

void read_comparison(const OptionReader& reader, Options& options) {
    options.reference = reader.text("test_hf_dir").value_or("");
    if (options.command == Command::test && options.reference.empty()) {
        refuse("test needs a model to compare with: --test_hf_dir DIR");
    }
    options.atol = reader.real("atol").value_or(options.atol);
    options.rtol = reader.real("rtol").value_or(options.rtol);
    options.strict_dtype = reader.has("strict_dtype");
}

void read_upload(const OptionReader& reader, Options& options) {
    options.upload_path = reader.text("hf_upload_path").value_or("");
    options.is_private = reader.has("private");
    if (const auto client = reader.text("hf_cli")) {
        options.hf_cli = *client;
    }
    if (options.upload_path.empty() &&
        (options.command == Command::upload || options.is_private || options.hf_cli)) {
        refuse("no repository to upload to is given: --hf_upload_path ORG/NAME");
    }
}

void read_execution(const OptionReader& reader, Options& options) {
    using plan::Replicas;
    using plan::Strategy;
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
    if (options.memory_limit && *options.memory_limit < 2 * plan::kLeastMemory) {
        refuse("--memory_limit " + reader.text("memory_limit").value_or("") +
               " is too small: give at least 1MiB a rank");
    }
    options.message_limit = reader.size("message_limit").value_or(0);
    options.read_ahead =
        reader
            .choice<std::optional<bool>>("read_ahead",
                                         {{"auto", std::nullopt}, {"yes", true}, {"no", false}})
            .value_or(std::nullopt);
    options.bw_limit = reader.size("bw_limit");
    options.max_readers = static_cast<int>(reader.number("max_readers", 1).value_or(0));
    if (options.max_readers > 0 && options.strategy == Strategy::direct) {
        refuse("--strategy direct lets every rank read: leave it out with --max_readers");
    }
    options.strict = reader.has("strict");
    options.resume = reader.has("resume");
    options.stop_before = reader.duration("stop_before");
    options.stall_timeout = reader.duration("stall_timeout").value_or(options.stall_timeout);
    const Index n_ranks = reader.number("ranks", 1).value_or(1);
    if (n_ranks > kMostRanks) {
        refuse("--ranks " + std::to_string(n_ranks) + " is more than " +
               std::to_string(kMostRanks) + ", the most that are planned for");
    }
    options.n_ranks = static_cast<int>(n_ranks);
}

void read_messages(const OptionReader& reader, Options& options) {
    options.json = reader.has("json");
    options.trace = reader.text("trace").value_or("");
    options.is_quiet = reader.has("quiet");
    if (const auto directory = reader.text("log_dir")) {
        options.log_dir = *directory;
    }
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
    const bool takes_some =
        options.command == Command::inspect || options.command == Command::recipes ||
        options.command == Command::diff || options.command == Command::verify ||
        options.command == Command::upload || options.command == Command::iobench;
    const std::size_t most = options.command == Command::diff ? 2 : takes_some ? 1 : 0;
    if (others.size() > most) {
        refuse("unexpected argument " + printable(others.back()) +
               " (usage: " + std::string(command.usage) + ")");
    }
    if (options.command == Command::diff) {
        if (others.size() != 2) {
            refuse("two directories are needed (usage: " + std::string(command.usage) + ")");
        }
        options.local_dir = others[0];
        options.reference = others[1];
    } else if (options.command == Command::recipes && !others.empty()) {
        options.topic = others.front();
    } else if (!others.empty()) {
        if (!options.local_dir.empty()) {
            refuse("the checkpoint is given twice: " + options.local_dir.string() + " and " +
                   printable(others.front()));
        }
        options.local_dir = others.front();
    }
    if (options.command != Command::recipes && options.local_dir.empty()) {
        refuse("no directory is given (usage: " + std::string(command.usage) + ")");
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
    refuse("unknown command " + printable(name) + suggestion(name, known) +
           " (commands: merge, test, plan, inspect, diff, verify, upload, iobench, recipes, help)");
}

bool asks_for_help(const std::string& argument) {
    return argument == "-h" || argument == "--help";
}

bool asks_for_more(const std::string& argument) {
    return argument == "-v" || argument == "--verbose";
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
    if (arguments.size() < 2) {
        refuse(
            "no command is given (commands: merge, test, plan, inspect, diff, verify, upload, "
            "iobench, recipes, help)");
    }
    Options options;
    const std::string& first = arguments[1];
    if (first == "--version" || first == "version") {
        options.command = Command::version;
        if (std::any_of(arguments.begin() + 2, arguments.end(), asks_for_more)) {
            options.log_level = LogLevel::debug;
        }
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
    const OptionReader reader(split);
    read_input(reader, options);
    read_output(reader, options);
    read_model(reader, options);
    read_comparison(reader, options);
    read_upload(reader, options);
    read_storage(reader, options);
    read_execution(reader, options);
    read_messages(reader, options);
    read_job(split, options);
    place_others(command, split.others, options);
    options.shared = shared_text(command, split);
    return options;
}

formats::Request input_request(const Options& options) {
    return {options.local_dir,
            options.backend,
            options.iteration,
            options.role,
            options.mesh,
            options.prefix,
            options.check_crc != CheckCrc::off};
}

}  // namespace shardweld::app

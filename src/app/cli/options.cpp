#include "options.hpp"

#include <algorithm>

#include "shardweld/core/text.hpp"

#include "arguments.hpp"
#include "nearest.hpp"
#include "option_rules.hpp"
#include "option_table.hpp"
#include "same_options.hpp"
#include "sbatch_options.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kCommands =
    " (commands: merge, test, plan, inspect, diff, verify, upload, iobench, recipes, help)";

std::string usage_of(const CommandRow& command) {
    return " (usage: " + std::string(command.usage) + ")";
}

void read_options(const Arguments& arguments, Options& options) {
    for (const OptionRow& row : option_rows()) {
        if (const auto given = arguments.values.find(row.name); given != arguments.values.end()) {
            row.set({row.name, given->second}, options);
        }
    }
}

/// Arguments that are no options: directories, or a recipe's name.
void place_others(const CommandRow& command, const std::vector<std::string>& others,
                  Options& options) {
    if (others.size() > command.n_others) {
        refuse("unexpected argument " + printable(others.back()) + usage_of(command));
    }
    if (options.command == Command::diff) {
        if (others.size() != 2) {
            refuse("two directories are needed" + usage_of(command));
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
        refuse("no directory is given" + usage_of(command));
    }
}

const CommandRow& find_command(const std::string& name) {
    std::vector<std::string> known{"help"};
    for (const CommandRow& row : command_rows()) {
        if (row.name == name) {
            return row;
        }
        known.emplace_back(row.name);
    }
    refuse("unknown command " + printable(name) + suggestion(name, known) + kCommands);
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
        refuse(std::string("no command is given") + kCommands);
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
    const CommandRow& command = find_command(first);
    const std::vector<std::string> rest(arguments.begin() + 2, arguments.end());
    if (std::any_of(rest.begin(), rest.end(), asks_for_help)) {
        options.topic = command.name;
        return options;
    }
    options.command = command.command;
    const Arguments given = split_arguments(command, rest);
    read_options(given, options);
    check_together(given, options);
    place_others(command, given.others, options);
    complete_job(given, options);
    options.shared = shared_text(command, given);
    options.output_options = output_options(given);
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

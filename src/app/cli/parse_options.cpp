#include "parse_options.hpp"

#include <algorithm>
#include <utility>

#include "app/settings/settle.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"

#include "arguments.hpp"
#include "nearest.hpp"
#include "sbatch_options.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kCommands =
    "give one of merge, test, plan, inspect, diff, verify, check, clean, upload, iobench, report, "
    "recipes "
    "and "
    "help";

std::string usage_of(const CommandRow& command) {
    return "usage: " + std::string(command.usage);
}
/// Of several checkpoints all plain arguments are one, but for the last where it stands for what
/// the command writes to or compares with.
void place_checkpoints(const CommandRow& command, Arguments& given, Averaging& averaging) {
    std::vector<std::string> others = std::exchange(given.others, {});
    const std::string_view last = command.others.back();
    const bool has_last = command.command != Command::plan && !given.has(last) && others.size() > 1;
    if (has_last) {
        given.values.emplace(last, others.back());
        others.pop_back();
    }
    if (!given.has("local_dir") && !others.empty()) {
        given.values.emplace("local_dir", others.front());
        others.erase(others.begin());
    }
    averaging.others.assign(others.begin(), others.end());
    given.checkpoints = std::move(others);
}

/// A plain argument is the value of the option that it stands for.
void place_others(const CommandRow& command, Arguments& given) {
    if (given.others.size() > command.others.size()) {
        refuse("unexpected argument " + printable(given.others.back()), usage_of(command));
    }
    for (std::size_t i = 0; i < given.others.size(); ++i) {
        const auto [known, is_new] = given.values.emplace(command.others[i], given.others[i]);
        if (!is_new) {
            refuse("--" + known->first + " is given twice: " + printable(known->second) + " and " +
                       printable(given.others[i]),
                   "give it once");
        }
    }
}

/// A directory in a command's place.
bool is_place(const std::string& word) {
    return !word.starts_with('-') &&
           (word.find('/') != std::string::npos || io::is_directory(word));
}

/// What the first word asks for; a directory alone is inspected.
const CommandRow& find_command(const std::string& name) {
    std::vector<std::string> known{"help"};
    for (const CommandRow& row : command_rows()) {
        if (row.name == name) {
            return row;
        }
        known.emplace_back(row.name);
    }
    if (is_place(name)) {
        return find_command("inspect");
    }
    const std::string meant = suggestion(name, known);
    refuse(meant.empty() ? printable(name) + " is neither a command nor a directory"
                         : "unknown command " + printable(name),
           meant.empty() ? kCommands : meant);
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
        refuse("no command is given", kCommands);
    }
    Options options;
    options.arguments = arguments;
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
    const bool is_named = command.name == first;
    const std::vector<std::string> rest(arguments.begin() + (is_named ? 2 : 1), arguments.end());
    if (const auto asked = std::ranges::find_if(rest, asks_for_help); asked != rest.end()) {
        options.topic = command.name;
        options.is_short = *asked == "-h";
        return options;
    }
    options.command = command.command;
    Arguments given = split_arguments(command, rest);
    if (given.has("average") || given.has("delta")) {
        place_checkpoints(command, given, options.averaging);
    }
    place_others(command, given);
    options = settled(std::move(options), command, given);
    complete_job(given, options);
    return options;
}

}  // namespace shardweld::app

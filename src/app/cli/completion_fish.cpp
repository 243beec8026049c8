#include "completion.hpp"
#include "completion_parts.hpp"
#include "option_table.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kFishDirectories = "(__fish_complete_directories)";

std::string fish_quoted(std::string_view text) {
    std::string result = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') {
            result += '\\';
        }
        result += c;
    }
    return result + "'";
}

/// What completes the option's value, "" for a flag.
std::string fish_value(const OptionRow& row) {
    if (row.is_flag()) {
        return "";
    }
    if (row.names_file()) {
        return " -r -F";
    }
    if (row.names_directory()) {
        return " -x -a " + fish_quoted(kFishDirectories);
    }
    const std::vector<std::string>& words = row.set.words();
    return words.empty() ? " -x" : " -x -a " + fish_quoted(spaced(words));
}

/// The option in all commands that take it.
std::string fish_option(const OptionRow& row) {
    std::string commands;
    for (const CommandRow& command : command_rows()) {
        if (row.is_taken_by(command.command)) {
            commands += " " + std::string(command.name);
        }
    }
    const std::string letter = row.letter == 0 ? "" : std::string(" -s ") + row.letter;
    return "complete -c shardweld -n '__fish_seen_subcommand_from" + commands + "'" + letter +
           " -l " + std::string(row.name) + fish_value(row) + " -d " + fish_quoted(row.help) + "\n";
}

/// What stands behind the command and is no option.
std::string fish_others(const CommandRow& command) {
    const bool is_recipe = command.command == Command::recipes;
    if (command.others.empty()) {
        return "";
    }
    return "complete -c shardweld -n '__fish_seen_subcommand_from " + std::string(command.name) +
           "' -a " + fish_quoted(is_recipe ? spaced(recipe_names()) : kFishDirectories) + "\n";
}

}  // namespace

std::string fish_completion() {
    std::string text =
        "# Completes commands, options and values of shardweld in fish.\n"
        "complete -c shardweld -f\n";
    std::string commands;
    for (const CommandRow& command : command_rows()) {
        text += "complete -c shardweld -n __fish_use_subcommand -a " + std::string(command.name) +
                " -d " + fish_quoted(command.summary) + "\n" + fish_others(command);
        commands += std::string(command.name) + " ";
    }
    text +=
        "complete -c shardweld -n __fish_use_subcommand -a help -d 'print help'\n"
        "complete -c shardweld -n '__fish_seen_subcommand_from help' -a " +
        fish_quoted(commands) + "\n";
    for (const OptionRow& row : option_rows()) {
        if (!row.group.empty()) {
            text += fish_option(row);
        }
    }
    return text;
}

}  // namespace shardweld::app

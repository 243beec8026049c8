#include "completion.hpp"

#include <functional>

#include "option_table.hpp"

namespace shardweld::app {

namespace {

/// "--a|--b": the options a rule of `case` is for.
std::string pattern(const std::function<bool(const OptionLine&)>& is_meant) {
    std::string text;
    for (const OptionLine& line : option_lines()) {
        if (is_meant(line)) {
            text += (text.empty() ? "--" : "|--") + std::string(line.name);
        }
    }
    return text;
}

bool is_file(const OptionLine& line) {
    return line.argument == "FILE" || line.argument == "PATH";
}

/// The options of one command, short and long; those that are not listed in the help neither here.
std::string words_of(const CommandLine& command) {
    std::string text;
    for (const OptionLine& line : option_lines()) {
        if ((line.commands & command.bit) == 0 || line.group.empty()) {
            continue;
        }
        text += (text.empty() ? "--" : " --") + std::string(line.name);
        if (line.letter != 0) {
            text += std::string(" -") + line.letter;
        }
    }
    return text;
}

}  // namespace

std::string bash_completion() {
    std::string commands;
    std::string rules;
    for (const CommandLine& command : command_lines()) {
        commands += std::string(command.name) + " ";
        rules +=
            "        " + std::string(command.name) + ") words=\"" + words_of(command) + "\" ;;\n";
    }
    const std::string directories =
        pattern([](const OptionLine& line) { return line.argument == "DIR"; });
    const std::string files = pattern(is_file);
    const std::string others = pattern([](const OptionLine& line) {
        return !line.argument.empty() && line.argument != "DIR" && !is_file(line);
    });
    return "# Completes the commands and options of shardweld in bash.\n"
           "_shardweld() {\n"
           "    local current=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\"\n"
           "    COMPREPLY=()\n"
           "    if ((COMP_CWORD == 1)) || [[ ${COMP_WORDS[1]} == help ]]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"" +
           commands +
           "help\" -- \"$current\")\n"
           "        return\n"
           "    fi\n"
           "    case ${COMP_WORDS[COMP_CWORD-1]} in\n"
           "        " +
           directories +
           ") compopt -o filenames 2>/dev/null\n"
           "            mapfile -t COMPREPLY < <(compgen -d -- \"$current\"); return ;;\n"
           "        " +
           files +
           ") compopt -o filenames 2>/dev/null\n"
           "            mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); return ;;\n"
           "        " +
           others +
           ") return ;;\n"
           "    esac\n"
           "    case ${COMP_WORDS[1]} in\n" +
           rules +
           "    esac\n"
           "    if [[ $current == -* ]]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
           "    else\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        mapfile -t COMPREPLY < <(compgen -d -- \"$current\")\n"
           "    fi\n"
           "}\n"
           "complete -F _shardweld shardweld\n";
}

}  // namespace shardweld::app

#include "completion.hpp"

#include <functional>

#include "option_table.hpp"

namespace shardweld::app {

namespace {

/// "--a|--b": the options a rule of `case` is for.
std::string pattern(const std::function<bool(const OptionRow&)>& is_meant) {
    std::string text;
    for (const OptionRow& row : option_rows()) {
        if (is_meant(row)) {
            text += (text.empty() ? "--" : "|--") + std::string(row.name);
        }
    }
    return text;
}

/// The options of one command, short and long.
std::string words_of(const CommandRow& command) {
    std::string text;
    for (const OptionRow* row : listed_options(command)) {
        text += (text.empty() ? "--" : " --") + std::string(row->name);
        if (row->letter != 0) {
            text += std::string(" -") + row->letter;
        }
    }
    return text;
}

}  // namespace

std::string bash_completion() {
    std::string commands;
    std::string rules;
    for (const CommandRow& command : command_rows()) {
        commands += std::string(command.name) + " ";
        rules +=
            "        " + std::string(command.name) + ") words=\"" + words_of(command) + "\" ;;\n";
    }
    const std::string directories = pattern(&OptionRow::names_directory);
    const std::string files = pattern(&OptionRow::names_file);
    const std::string others =
        pattern([](const OptionRow& row) { return !row.is_flag() && !row.names_path(); });
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

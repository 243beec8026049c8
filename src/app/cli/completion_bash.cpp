#include <functional>

#include "shardweld/core/text.hpp"

#include "completion.hpp"
#include "completion_parts.hpp"
#include "option_table.hpp"

namespace shardweld::app {

namespace {

constexpr std::string_view kBash = R"(# Completes commands, options and values of shardweld in bash.
_shardweld() {
    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""
    COMPREPLY=()
    if ((COMP_CWORD == 1)) || [[ ${COMP_WORDS[1]} == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "@COMMANDS@help" -- "$current")
        return
    fi
    # bash takes --option=value apart.
    if [[ $current == = ]]; then
        current=""
    elif [[ $before == = ]]; then
        before="${COMP_WORDS[COMP_CWORD-2]}"
    fi
    case ${before//-/_} in
        @DIRECTORIES@) compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
        @FILES@) compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
@WORDS@        @OTHERS@) return ;;
    esac
    if [[ -n $words && $current != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        return
    fi
    case ${COMP_WORDS[1]} in
@COMMAND_OPTIONS@    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    elif [[ ${COMP_WORDS[1]} == recipes ]]; then
        mapfile -t COMPREPLY < <(compgen -W "@RECIPES@" -- "$current")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
    fi
}
complete -F _shardweld shardweld
)";

/// "__a|__b": the options a rule of `case` is for.
std::string bash_pattern(const std::function<bool(const OptionRow&)>& is_meant) {
    std::string text;
    for (const OptionRow& row : option_rows()) {
        if (is_meant(row)) {
            text += (text.empty() ? "__" : "|__") + std::string(row.name);
        }
    }
    return text;
}

/// A rule for each option that has words of its own.
std::string bash_words() {
    std::string rules;
    for (const OptionRow& row : option_rows()) {
        if (!row.set.words().empty()) {
            rules += "        __" + std::string(row.name) + ") words=\"" + spaced(row.set.words()) +
                     "\" ;;\n";
        }
    }
    return rules;
}

/// The options of each command, short and long.
std::string bash_options() {
    std::string rules;
    for (const CommandRow& command : command_rows()) {
        std::vector<std::string> words;
        for (const OptionRow* row : listed_options(command)) {
            words.push_back("--" + std::string(row->name));
            if (row->letter != 0) {
                words.push_back(std::string("-") + row->letter);
            }
        }
        rules += "        " + std::string(command.name) + ") words=\"" + spaced(words) + "\" ;;\n";
    }
    return rules;
}

}  // namespace

std::string bash_completion() {
    std::string commands;
    for (const CommandRow& command : command_rows()) {
        commands += std::string(command.name) + " ";
    }
    const auto takes_any = [](const OptionRow& row) {
        return !row.is_flag() && !row.names_path() && row.set.words().empty();
    };
    std::string text(kBash);
    text = replaced(text, "@COMMANDS@", commands);
    text = replaced(text, "@DIRECTORIES@", bash_pattern(&OptionRow::names_directory));
    text = replaced(text, "@FILES@", bash_pattern(&OptionRow::names_file));
    text = replaced(text, "@WORDS@", bash_words());
    text = replaced(text, "@OTHERS@", bash_pattern(takes_any));
    text = replaced(text, "@COMMAND_OPTIONS@", bash_options());
    return replaced(text, "@RECIPES@", spaced(recipe_names()));
}

}  // namespace shardweld::app

#include "completion.hpp"

#include <functional>
#include <vector>

#include "app/settings/option_table.hpp"
#include "app/settings/option_value.hpp"
#include "core/path.hpp"
#include "core/text.hpp"
#include "models/recipe.hpp"

namespace shardweld::app {

namespace {

/// The built-in recipes and dialects.
std::vector<std::string> recipe_names() {
    std::vector<std::string> names;
    for (const models::RecipeFile& source : models::built_in_sources()) {
        names.push_back(fs::path(source.file_name).stem().string());
    }
    return names;
}

constexpr std::string_view kBash = R"(# Completes commands, options and values of shardweld in bash.
_shardweld() {
    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words="" begun=""
    COMPREPLY=()
    if ((COMP_CWORD == 1)) || [[ ${COMP_WORDS[1]} == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "@COMMANDS@help" -- "$current")
        return
    fi
    # bash takes --option=value and gguf:q8_0 apart.
    if [[ $current == : ]]; then
        begun="$before:" current="" before="${COMP_WORDS[COMP_CWORD-2]}"
    elif [[ $before == : ]]; then
        begun="${COMP_WORDS[COMP_CWORD-2]}:" before="${COMP_WORDS[COMP_CWORD-3]}"
    elif [[ $current == = ]]; then
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
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$begun$current")
        COMPREPLY=("${COMPREPLY[@]#"$begun"}")
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
            rules += "        __" + std::string(row.name) + ") words=\"" +
                     joined(row.set.words(), " ") + "\" ;;\n";
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
        rules +=
            "        " + std::string(command.name) + ") words=\"" + joined(words, " ") + "\" ;;\n";
    }
    return rules;
}

std::string bash_completion() {
    const auto name_of = [](const CommandRow& command) { return command.name; };
    const auto takes_any = [](const OptionRow& row) {
        return !row.is_flag() && !row.names_path() && row.set.words().empty();
    };
    std::string text(kBash);
    text = replaced(text, "@COMMANDS@", joined(command_rows(), " ", name_of) + " ");
    text = replaced(text, "@DIRECTORIES@", bash_pattern(&OptionRow::names_directory));
    text = replaced(text, "@FILES@", bash_pattern(&OptionRow::names_file));
    text = replaced(text, "@WORDS@", bash_words());
    text = replaced(text, "@OTHERS@", bash_pattern(takes_any));
    text = replaced(text, "@COMMAND_OPTIONS@", bash_options());
    return replaced(text, "@RECIPES@", joined(recipe_names(), " "));
}

constexpr std::string_view kZsh = R"(#compdef shardweld
# Completes commands, options and values of shardweld in zsh.
_shardweld() {
    local -a commands=(
@COMMANDS@    )
    if ((CURRENT == 2)) || [[ $words[2] == help ]]; then
        _describe command commands
        return
    fi
    shift words
    ((CURRENT--))
    case $words[1] in
@RULES@    esac
}
if [[ $funcstack[1] == _shardweld ]]; then
    _shardweld "$@"
else
    compdef _shardweld shardweld
fi
)";

/// What stands between single quotes, with the marks of _arguments taken as they are.
std::string zsh_quoted(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '[' || c == ']' || c == ':' || c == '\\') {
            result += '\\';
        }
        result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return result;
}

/// ":NAME:what completes it", "" for a flag.
std::string zsh_value(const OptionRow& row) {
    if (row.is_flag()) {
        return "";
    }
    const std::string name = (row.may_lack_value() ? "::" : ":") +
                             zsh_quoted(replaced(std::string(row.value), "|", " or "));
    if (row.names_path()) {
        return name + (row.names_directory() ? ":_files -/" : ":_files");
    }
    const std::string words = replaced(joined(row.set.words(), " "), ":", "\\:");
    return name + ":" + (words.empty() ? "" : "(" + words + ")");
}

/// One argument of _arguments for each spelling of the option.
std::string zsh_option(const OptionRow& row, const CommandRow& command) {
    const std::string name = "--" + std::string(row.name);
    const std::string rest = "[" + zsh_quoted(help_for(row, command)) + "]" + zsh_value(row) + "'";
    if (row.letter == 0) {
        return " '" + name + (row.is_flag() ? "" : "=") + rest;
    }
    const std::string letter = std::string("-") + row.letter;
    const std::string both = " '(" + letter + " " + name + ")";
    return both + letter + rest + both + name + rest;
}

std::string zsh_others(const CommandRow& command) {
    if (command.command == Command::recipes) {
        return " '1:recipe:(" + joined(recipe_names(), " ") + ")'";
    }
    return command.others.empty() ? "" : " '*:directory:_files -/'";
}

std::string zsh_completion() {
    std::string commands;
    std::string rules;
    for (const CommandRow& command : command_rows()) {
        const std::string name(command.name);
        commands += "        '" + name + ":" + zsh_quoted(command.summary) + "'\n";
        rules += "        " + name + ") _arguments -s";
        for (const OptionRow* row : listed_options(command)) {
            rules += " \\\n           " + zsh_option(*row, command);
        }
        rules += " \\\n           " + zsh_others(command) + " ;;\n";
    }
    commands += "        'help:print help'\n";
    return replaced(replaced(std::string(kZsh), "@COMMANDS@", commands), "@RULES@", rules);
}

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
    // Behind the tab is a value's own description: none, or fish shows the option's beside each.
    const std::string words =
        joined(row.set.words(), " ", [](const std::string& word) { return word + "\\t"; });
    return words.empty() ? " -x" : " -x -a '" + words + "'";
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
           "' -a " + fish_quoted(is_recipe ? joined(recipe_names(), " ") : kFishDirectories) + "\n";
}

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

}  // namespace

std::string completion_for(std::string_view shell) {
    const Words<std::string (*)()> shells = {
        {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};
    return word_in({"completion", std::string(shell)}, shells)();
}

}  // namespace shardweld::app

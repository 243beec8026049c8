#include "shardweld/core/text.hpp"

#include "completion.hpp"
#include "completion_parts.hpp"
#include "option_table.hpp"

namespace shardweld::app {

namespace {

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
    return name + ":" + (row.set.words().empty() ? "" : "(" + spaced(row.set.words()) + ")");
}

/// One argument of _arguments for each spelling of the option.
std::string zsh_option(const OptionRow& row) {
    const std::string name = "--" + std::string(row.name);
    const std::string rest = "[" + zsh_quoted(row.help) + "]" + zsh_value(row) + "'";
    if (row.letter == 0) {
        return " '" + name + (row.is_flag() ? "" : "=") + rest;
    }
    const std::string letter = std::string("-") + row.letter;
    const std::string both = " '(" + letter + " " + name + ")";
    return both + letter + rest + both + name + rest;
}

std::string zsh_others(const CommandRow& command) {
    if (command.command == Command::recipes) {
        return " '1:recipe:(" + spaced(recipe_names()) + ")'";
    }
    return command.others.empty() ? "" : " '*:directory:_files -/'";
}

}  // namespace

std::string zsh_completion() {
    std::string commands;
    std::string rules;
    for (const CommandRow& command : command_rows()) {
        const std::string name(command.name);
        commands += "        '" + name + ":" + zsh_quoted(command.summary) + "'\n";
        rules += "        " + name + ") _arguments -s";
        for (const OptionRow* row : listed_options(command)) {
            rules += " \\\n           " + zsh_option(*row);
        }
        rules += " \\\n           " + zsh_others(command) + " ;;\n";
    }
    commands += "        'help:print help'\n";
    return replaced(replaced(std::string(kZsh), "@COMMANDS@", commands), "@RULES@", rules);
}

}  // namespace shardweld::app

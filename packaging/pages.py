#!/usr/bin/env python3
"""Manual pages and completions for bash, zsh and fish, made of what `shardweld help --json` prints.

    pages.py PROGRAM PREFIX      writes them where PREFIX, an installation, has them: below PREFIX/share
"""
import json
import pathlib
import subprocess
import sys

# Manual pages.


def escaped(text):
    """Text as roff shows it as it is: backslashes and dashes escaped, no line taken for a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in text.split("\n"))


def bold(text):
    return f"\\fB{escaped(text)}\\fP"


def section(name, body):
    return f".SH {name}\n{body}"


def paragraphs(text):
    """Lines that roff fills; paragraphs stand apart by empty lines."""
    return ".PP\n".join(escaped(part.strip("\n")) + "\n" for part in text.split("\n\n") if part.strip("\n"))


def entry(term, text):
    return f".TP\n{term}\n{escaped(text)}\n"


def matters_to(row, command):
    return command is None or command["name"] in row["commands"]


def option_entries(told, command):
    text, group = "", ""
    for option in listed_options(told, command):
        if option["group"] != group:
            group = option["group"]
            text += f".SS {group}\n"
        term = bold("-" + option["letter"]) + ", " if option["letter"] else ""
        term += bold("--" + option["name"])
        if option["value"]:
            term += f" \\fI{escaped(option['value'])}\\fP"
        text += entry(term, option["help_by_command"][command["name"]])
    return text


def last_sections(told, command, examples):
    """What all pages end with; `command` is None for the page of the whole program."""
    codes = "".join(entry(bold(str(row["code"])), row["meaning"]) for row in told["exit_codes"] if matters_to(row, command))
    text = section("EXIT STATUS", codes + ".PP\nAll ranks end with the same code, which mpirun and srun return.\n")
    for name, rows in (("ENVIRONMENT", told["environment"]), ("FILES", told["files"])):
        body = "".join(entry(bold(row["name"]), row["meaning"]) for row in rows if matters_to(row, command))
        text += section(name, body) if body else ""
    pages = ["shardweld", *("shardweld-" + row["name"] for row in told["commands"])]
    return text + section("EXAMPLES", f".nf\n{escaped(examples)}.fi\n") + section("SEE ALSO", ",\n".join(bold(page) + "(1)" for page in pages) + "\n")


def page(told, name, summary, synopsis, body):
    head = f'.TH {escaped(name.upper())} 1 "" "shardweld {escaped(told["version"])}" shardweld\n'
    return head + section("NAME", f"{escaped(name)} \\- {escaped(summary)}\n") + section("SYNOPSIS", synopsis) + body


def program_page(told):
    words = f"{bold('shardweld')} \\fICOMMAND\\fP [\\fIoptions\\fP]\n"
    about = ("Merges the shards that training jobs leave behind into one model directory, with as many ranks as the launcher starts. Each command "
             "has a page of its own. Option names may be written with - or _. Results go to standard output, messages to standard error.")
    commands = "".join(entry(bold(row["name"]), row["summary"]) for row in told["commands"])
    examples = ("  shardweld inspect ckpt/global_step_100\n"
                "  mpirun -n 8 shardweld merge --local_dir ckpt/global_step_100/actor \\\n"
                "      --target_dir merged\n"
                "  shardweld verify merged\n")
    return page(told, "shardweld", "merge distributed training checkpoints into HuggingFace models",
                f"{words}.br\n{bold('mpirun -n')} \\fIN\\fP {words}",
                section("DESCRIPTION", paragraphs(about)) + section("COMMANDS", commands) + last_sections(told, None, examples))


def command_page(told, command):
    about, _, examples = command["about"].partition("Examples:\n")
    return page(told, "shardweld-" + command["name"], command["summary"], bold(command["usage"]) + "\n",
                (section("DESCRIPTION", paragraphs(about)) if about else "") + section("OPTIONS", option_entries(told, command)) +
                last_sections(told, command, examples))


# Completions.


def listed_options(told, command):
    return [option for option in told["options"] if option["is_listed"] and command["name"] in option["help_by_command"]]


def names_of(told):
    return " ".join(command["name"] for command in told["commands"])


def recipes_of(told):
    return " ".join(told["recipes"])


BASH = r"""# Completes commands, options and values of shardweld in bash.
_shardweld() {
    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words="" begun=""
    COMPREPLY=()
    if ((COMP_CWORD == 1)) || [[ ${COMP_WORDS[1]} == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "@COMMANDS@ help" -- "$current")
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
"""


def filled(text, parts):
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


def bash_completion(told):
    def pattern(kind):
        return "|".join("__" + option["name"] for option in told["options"] if option["kind"] == kind)

    def options_of(command):
        for option in listed_options(told, command):
            yield "--" + option["name"]
            if option["letter"]:
                yield "-" + option["letter"]

    def rule(name, words):
        return f'        {name}) words="{" ".join(words)}" ;;\n'

    return filled(BASH, {
        "COMMANDS": names_of(told),
        "DIRECTORIES": pattern("directory"),
        "FILES": pattern("file"),
        "WORDS": "".join(rule("__" + option["name"], option["words"]) for option in told["options"] if option["words"]),
        "OTHERS": pattern("text"),
        "COMMAND_OPTIONS": "".join(rule(command["name"], options_of(command)) for command in told["commands"]),
        "RECIPES": recipes_of(told),
    })


ZSH = r"""#compdef shardweld
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
"""


def zsh_quoted(text):
    """What stands between single quotes, with the marks of _arguments taken as they are."""
    return "".join("\\" + c if c in "[]:\\" else c for c in text).replace("'", "'\\''")


def zsh_value(option):
    """":NAME:what completes it", "" for a flag."""
    if option["kind"] == "none":
        return ""
    name = ("::" if option["may_lack_value"] else ":") + zsh_quoted(option["value"].replace("|", " or "))
    words = " ".join(option["words"]).replace(":", "\\:")
    return name + {"directory": ":_files -/", "file": ":_files", "text": ":"}.get(option["kind"], f":({words})")


def zsh_option(option, command):
    """One argument of _arguments for each spelling of the option."""
    name, letter = "--" + option["name"], "-" + option["letter"]
    rest = f"[{zsh_quoted(option['help_by_command'][command['name']])}]{zsh_value(option)}'"
    if not option["letter"]:
        return f" '{name}{'=' if option['value'] else ''}{rest}"
    return "".join(f" '({letter} {name}){spelling}{rest}" for spelling in (letter, name))


def zsh_completion(told):
    commands = rules = ""
    for command in told["commands"]:
        others = " '*:directory:_files -/'" if command["arguments"] else ""
        if command["name"] == "recipes":
            others = f" '1:recipe:({recipes_of(told)})'"
        options = [zsh_option(option, command) for option in listed_options(told, command)]
        commands += f"        '{command['name']}:{zsh_quoted(command['summary'])}'\n"
        rules += " \\\n           ".join([f"        {command['name']}) _arguments -s", *options, others]) + " ;;\n"
    return filled(ZSH, {"COMMANDS": commands + "        'help:print help'\n", "RULES": rules})


FISH_DIRECTORIES = "(__fish_complete_directories)"


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_value(option):
    """What completes the option's value, "" for a flag."""
    # Behind the tab is a value's own description: none, or fish shows the option's beside each.
    words = " ".join(word + "\\t" for word in option["words"])
    return {"none": "", "file": " -r -F", "directory": f" -x -a {fish_quoted(FISH_DIRECTORIES)}", "text": " -x"}.get(option["kind"], f" -x -a '{words}'")


def fish_completion(told):
    def rule(condition, rest):
        return f"complete -c shardweld -n {condition} {rest}\n"

    def seen(commands):
        return f"'__fish_seen_subcommand_from {commands}'"

    text = "# Completes commands, options and values of shardweld in fish.\ncomplete -c shardweld -f\n"
    for command in told["commands"]:
        text += rule("__fish_use_subcommand", f"-a {command['name']} -d {fish_quoted(command['summary'])}")
        if command["arguments"]:
            text += rule(seen(command["name"]), "-a " + fish_quoted(recipes_of(told) if command["name"] == "recipes" else FISH_DIRECTORIES))
    text += rule("__fish_use_subcommand", "-a help -d 'print help'") + rule(seen("help"), "-a " + fish_quoted(names_of(told) + " "))
    for option in told["options"]:
        if option["is_listed"]:
            letter = f"-s {option['letter']} " if option["letter"] else ""
            text += rule(seen(" ".join(option["help_by_command"])), f"{letter}-l {option['name']}{fish_value(option)} -d {fish_quoted(option['help'])}")
    return text


def main(program, prefix):
    told = json.loads(subprocess.run([program, "help", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    share = pathlib.Path(prefix) / "share"
    files = {f"man/man1/shardweld-{command['name']}.1": command_page(told, command) for command in told["commands"]}
    files.update({"man/man1/shardweld.1": program_page(told), "bash-completion/completions/shardweld": bash_completion(told),
                  "zsh/site-functions/_shardweld": zsh_completion(told), "fish/vendor_completions.d/shardweld.fish": fish_completion(told)})
    for name, text in files.items():
        (share / name).parent.mkdir(parents=True, exist_ok=True)
        (share / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/env python3
"""What the documents show of the program, made by the program: docs/using/commands from its help, and what commands print.

    scripts/docs_pages.py SHARDWELD           writes the pages anew
    scripts/docs_pages.py --check SHARDWELD   changes nothing and fails where a page would change; times and rates may differ

Behind a line `<!-- shown: NAME = FIXTURE, .. -->` a page's blocks of `console` run, one after the other, in a fresh directory with copies of
these fixtures: what stands below each line that begins with `$ ` is what it printed. Blocks of `sh` run there, too, and have to succeed.
A page with the line `<!-- walked -->` has all its commands in such blocks: they run from the first line to the last, where its `git clone` and
its build find this tree and this program, and its servers a model's directory. No other page may do without the fixtures it names.
"""

import argparse
import itertools
import json
import keyword
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMANDS = ROOT / "docs/using/commands"
OPTIONS = ROOT / "python/shardweld/_options.py"
NAMED = {"merge": {"local_dir", "target_dir", "hf_config", "dtype", "quantize", "report", "overwrite", "also", "to", "like"},
         "plan": {"local_dir", "hf_config", "dtype", "quantize", "also", "ranks"}, "inspect": {"local_dir"}, "diff": {"local_dir", "test_hf_dir"},
         "verify": {"local_dir", "report"}, "check": {"local_dir", "target"}, "watch": {"local_dir", "target_dir"},
         "delta": {"local_dir", "target_dir"}, "upload": {"local_dir", "hf_upload_path"}, "recipes": {"topic"}}
TYPES = {"dtype": "Dtype", "quantize": "Encoding", "target": "Target"}
# How commands speak is not for Python, and merges there neither upload nor compare.
UNTOLD = {**dict.fromkeys(NAMED, {"Messages"}), "merge": {"Messages", "Upload", "Comparison"}, "plan": {"Messages", "Upload"}}
PAGES = [ROOT / "README.md", *sorted(path for path in ROOT.glob("docs/**/*.md") if path.parent != COMMANDS)]
RANKS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
         "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}


def command_pages(told):
    """The text of each page of COMMANDS."""
    names = [command["name"] for command in told["commands"]]
    listed = [option for option in told["options"] if option["is_listed"]]
    everywhere = [option for option in listed if len(set(option["help_by_command"].values())) == 1 and [*option["help_by_command"]] == names]
    text = ("# Commands\n\nThese pages are made from the program's help (`scripts/docs_pages.py`). `shardweld COMMAND -h` prints a command's usual\n"
            "options, `--help` all of them; `man shardweld-COMMAND` also its exit codes, variables and files. `-` and `_` are equal in names of options.\n\n"
            "| command | |\n|---|---|\n" + "".join(f"| [{one['name']}]({one['name']}.md) | {one['summary']} |\n" for one in told["commands"]))
    pages = {"README.md": text + ("\n" + table_text("Every command", everywhere, "merge") if everywhere else "")}
    for command in told["commands"]:
        name, purpose = command["name"], command["summary"]
        text = f"# {name}\n\n{purpose[0].upper()}{purpose[1:]}.\n\n    {command['usage']}\n"
        own = [option for option in listed if name in option["help_by_command"] and option not in everywhere]
        if name != "merge":
            same = [option for option in own if option["help_by_command"].get("merge") == option["help_by_command"][name]]
            own = [option for option in own if option not in same]
            links = ", ".join(f"[`--{option['name']}`](merge.md#{option['name']})" for option in same)
            text += f"\nOptions that it has in common with [merge](merge.md): {links}.\n" if same else ""
        text += "".join("\n" + table_text(group, options, name) for group, options in itertools.groupby(own, lambda option: option["group"]))
        pages[f"{name}.md"] = text + "".join(paragraph_text(paragraph) for paragraph in command["about"].rstrip().split("\n\n"))
    return pages


def table_text(title, options, command):
    """Each option can be linked to by its name."""
    rows = [(option["name"], f"-{option['letter']}, " * bool(option["letter"]) + f"--{option['name']} {option['value']}".rstrip(),
             option["help_by_command"][command].replace("|", "\\|")) for option in options]
    return f"| {title} | |\n|---|---|\n" + "".join(f'| <a id="{name}"></a>`{form}` | {meaning} |\n'.replace(form, form.replace("|", "\\|"))
                                                  for name, form, meaning in rows)


def options_module(told):
    """The Python module's types of options: a misspelt name or value is an error of mypy and pyright."""
    text = ('"""Options of the commands as Python has them, made from the program\'s help (scripts/docs_pages.py)."""\n\n'
            "from __future__ import annotations\n\nfrom os import PathLike\nfrom typing import Any, Literal, Sequence, TypedDict, Union\n\n"
            'Path = Union[str, bytes, "PathLike[Any]"]\n')
    options = {option["name"]: option for option in told["options"]}
    for option, name in TYPES.items():
        text += f"{name} = {literal(options[option]['words'])}\n"
    classes = {}  # by names of their rows: a command that takes all that another takes has its class as base
    for command in NAMED:
        rows = [option for option in told["options"] if option["is_listed"] and command in option["help_by_command"]
                and option["group"] not in UNTOLD[command] and option["name"] not in NAMED[command]]
        name, types = f"{command.capitalize()}Options", {option["name"]: python_type(option) for option in rows}
        base, known = max((one for one in classes.items() if one[1].items() <= types.items()), default=("TypedDict", {}), key=lambda one: len(one[1]))
        classes[name] = types
        text += f"\n\nclass {name}({base}, total=False):\n    \"\"\"Options of `{command}`, beside its parameters.\"\"\"\n\n"
        text += "".join(f"    {option}{'_' * keyword.iskeyword(option)}: {kind}\n" for option, kind in types.items() if option not in known)
    return text


def literal(words):
    lines = textwrap.fill(", ".join(f'"{word}"' for word in words), 140, initial_indent="    ", subsequent_indent="    ")
    return f"Literal[{lines.strip()}]" if len(lines) < 100 else f"Literal[\n{lines}]"


def python_type(option):
    if option["name"] in TYPES:
        return TYPES[option["name"]]
    one = {"none": "bool", "directory": "Path", "file": "Path"}.get(option["kind"])
    if option["words"] and option["name"] not in ("also", "to"):
        one = " | ".join(["bool"] * option["may_lack_value"] + [f"Literal[{', '.join(repr(word) for word in option['words'])}]"]).replace("'", '"')
    counts = {"N": "int", "X": "float", "LIST": "str | Sequence[Any]", "SIZE": "int | str", "TIME": "float | str"}
    one = one or counts.get(option["value"], "str")
    return f"{one} | Sequence[{one}]" if option["is_repeated"] else one


def paragraph_text(paragraph):
    title, *lines = paragraph.split("\n")
    if lines and lines[0].startswith("  "):
        return f"\n{title}\n\n" + "".join(f"  {line}\n" for line in lines)
    return f"\n{paragraph}\n"


def printed(command, folder, shardweld, must_succeed=False):
    """What a command prints where those before it have gone: their directory and PATH are kept beside the folder."""
    left = f"{folder}.left"
    told = f'[ -e {left} ] && . {left}; trap \'printf "cd %q\\nPATH=%q\\n" "$PWD" "$PATH" >{left}\' EXIT\n'
    environment = {**os.environ, **RANKS, "PATH": f"{folder}.stands-in:{shardweld.parent}:/usr/bin:{os.environ['PATH']}", "COLUMNS": "100"}
    run = subprocess.run(["bash", "-c", told + command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if must_succeed and run.returncode:
        sys.exit(f"{command}\n{run.stdout}")
    return "\n".join(line.rstrip() for line in run.stdout.replace(f"{folder}/", "").splitlines())


def stand_in(folder, shardweld):
    """What a walk takes from the network, builds or serves with, in its place: `git clone` gives this tree with a program that need not be built."""
    tree = "".join(f"ln -s '{ROOT / name}' shardweld; " for name in sorted(os.listdir(ROOT)) if not name.startswith(("build", ".", "scripts")))
    programs = {"git": f"mkdir shardweld && {tree} mkdir -p shardweld/scripts && printf '#!/bin/sh\\nmkdir -p build && ln -s {shardweld.parent} build/bin\\n' "
                       ">shardweld/scripts/quickstart.sh && chmod +x shardweld/scripts/quickstart.sh",
                "vllm": 'test -s "$2/model.safetensors"', "curl": "true",
                "python3": f'case "$2" in *transformers*) "{shutil.which("python3")}" -c "import transformers" 2>/dev/null || exit 0; esac; exec "{shutil.which("python3")}" "$@"'}
    os.mkdir(f"{folder}.stands-in")
    for name, text in programs.items():
        path = pathlib.Path(f"{folder}.stands-in", name)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)


def block_text(kind, block, folder, shardweld):
    if kind == "sh":
        printed(f"set -e\n{block}", folder, shardweld, must_succeed=True)
        return block
    commands = re.findall(r"^\$ (.*(?:\\\n.*)*)", block, re.M)
    return "\n".join(text for command in commands for text in (f"$ {command}", printed(command, folder, shardweld)) if text) + "\n"


def page_text(page, shardweld):
    """The page with all blocks run anew."""
    head, *parts = re.split(r"(?=^<!-- (?:shown: |walked))", page, flags=re.M)
    for part in parts:
        with tempfile.TemporaryDirectory() as place:
            folder = os.path.join(os.path.realpath(place), "walk")
            os.mkdir(folder)
            first = part.split("\n", 1)[0]
            if "walked" in first:
                stand_in(folder, shardweld)
                if re.search(r"\n\n    \S", re.sub(r"^```.*?^```", "", part, flags=re.M | re.S)):
                    sys.exit("a page that is walked through has its commands in blocks of `sh` or `console`, and no indented ones")
            for name, fixture in re.findall(r"(\S+) = (\S+?)[, ]", first):
                shutil.copytree(ROOT / fixture, pathlib.Path(folder) / name)
            head += re.sub(r"^```(console|sh)\n(.*?)^```$", lambda found: f"```{found[1]}\n{block_text(found[1], found[2], folder, shardweld)}```", part,
                           flags=re.M | re.S)
    return head


def missing_codes():
    """Exit codes without a heading of their own, which messages may name as an anchor."""
    codes = re.findall(r"^    (\w+) = (\d+),", (ROOT / "include/shardweld/error.hpp").read_text(encoding="utf-8"), re.M)
    page = (ROOT / "docs/using/errors.md").read_text(encoding="utf-8")
    return [f"{number} {name}" for name, number in codes if f"\n## {number} {name}\n" not in page]


def without_times(text):
    return re.sub(r"\b[\d.,]+ (s|min|[kMG]?B/s)\b", "N", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shardweld", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    shardweld = options.shardweld.absolute()
    stale = []
    told = json.loads(subprocess.run([shardweld, "help", "--json"], capture_output=True, text=True, check=True).stdout)
    made = {OPTIONS: options_module(told), **{COMMANDS / name: text for name, text in command_pages(told).items()}}
    made.update((page, page_text(page.read_text(encoding="utf-8"), shardweld)) for page in PAGES)
    for page in {*made, *COMMANDS.glob("*.md")}:
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        if without_times(made.get(page, "")) == without_times(text):
            continue
        stale.append(str(page.relative_to(ROOT)))
        if not options.check and page in made:
            page.parent.mkdir(exist_ok=True)
            page.write_text(made[page], encoding="utf-8")
        elif not options.check:
            page.unlink()
    if missing_codes():
        sys.exit(f"docs/using/errors.md has no heading for {', '.join(missing_codes())}")
    if options.check and stale:
        sys.exit(f"not what the program prints: {', '.join(stale)}; run scripts/docs_pages.py SHARDWELD")


main()

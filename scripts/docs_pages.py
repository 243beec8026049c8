#!/usr/bin/env python3
"""What the documents show of the program, made by the program: docs/using/commands.md from its help, and what commands print.

    scripts/docs_pages.py SHARDWELD           writes the pages anew
    scripts/docs_pages.py --check SHARDWELD   changes nothing and fails where a page would change; times and rates may differ

Behind a line `<!-- shown: NAME = FIXTURE, .. -->` a page's blocks of `console` run, one after the other, in a fresh directory with copies of
these fixtures: what stands below each line that begins with `$ ` is what it printed. Blocks of `sh` run there, too, and have to succeed.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMANDS = ROOT / "docs/using/commands.md"
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
RANKS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
         "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}


def help_of(shardweld, *command):
    return subprocess.run([shardweld, *command], capture_output=True, text=True, check=True).stdout


def commands_text(shardweld):
    names = re.findall(r"^  (\w+)  ", re.search(r"^Commands\n(.*?)\n\n", help_of(shardweld, "help"), re.M | re.S)[1], re.M)
    helps = {name: help_of(shardweld, name, "--help").rstrip().split("\n\n") for name in names if name != "help"}
    options = {name: [row for group in groups if is_table(group) for row in rows_of(group)] for name, groups in helps.items()}
    everywhere = [row for row in options["merge"] if all(row in rows for rows in options.values())]
    text = ("# Commands\n\nThis page is made from the program's help (`scripts/docs_pages.py`). `shardweld COMMAND -h` prints a command's usual\n"
            "options, `--help` all of them; `man shardweld-COMMAND` also its exit codes, variables and files. `-` and `_` are equal in names of options.\n\n"
            + table_text("Every command", everywhere))
    for name, (usage, purpose, *groups) in helps.items():
        known = everywhere if name == "merge" else everywhere + options["merge"]
        same = ", ".join(f"`{row[0].split()[0]}`" for row in options[name] if row in known and row not in everywhere)
        text += f"\n## {name}\n\n{purpose[0].upper()}{purpose[1:]}.\n\n    {usage.removeprefix('Usage: ')}\n"
        text += f"\nOptions that it has in common with [merge](#merge): {same}.\n" if same else ""
        text += "".join(group_text(group, known) for group in groups)
    return text


def is_table(group):
    return re.match(r".*\n {2,6}-", group) is not None


def rows_of(group):
    """The options of a group: what stands in the help's left column, and in its right one, which begins at the 26th."""
    rows = []
    for line in group.split("\n")[1:]:
        if re.match(r" {2,6}-", line):
            is_alone = line[25:26].strip() != ""
            rows.append([line.strip() if is_alone else line[:26].strip(), "" if is_alone else line[26:].strip()])
        else:
            rows[-1][1] = f"{rows[-1][1]} {line.strip()}".strip()
    return rows


def table_text(title, rows):
    cells = [(option.replace("|", "\\|"), meaning.replace("|", "\\|")) for option, meaning in rows]
    return f"| {title} | |\n|---|---|\n" + "".join(f"| `{option}` | {meaning} |\n" for option, meaning in cells)


def group_text(group, known):
    title, *lines = group.split("\n")
    if is_table(group):
        rows = [row for row in rows_of(group) if row not in known]
        return "\n" + table_text(title, rows) if rows else ""
    if lines and lines[0].startswith("  "):
        return f"\n{title}\n\n" + "".join(f"  {line}\n" for line in lines)
    return f"\n{group}\n"


def printed(command, folder, shardweld, must_succeed=False):
    environment = {**os.environ, **RANKS, "PATH": f"{shardweld.parent}:/usr/bin:{os.environ['PATH']}", "COLUMNS": "100"}
    run = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if must_succeed and run.returncode:
        sys.exit(f"{command}\n{run.stdout}")
    return "\n".join(line.rstrip() for line in run.stdout.replace(f"{folder}/", "").splitlines())


def block_text(kind, block, folder, shardweld):
    if kind == "sh":
        printed(f"set -e\n{block}", folder, shardweld, must_succeed=True)
        return block
    commands = re.findall(r"^\$ (.*(?:\\\n.*)*)", block, re.M)
    return "\n".join(text for command in commands for text in (f"$ {command}", printed(command, folder, shardweld)) if text) + "\n"


def page_text(page, shardweld):
    """The page with all blocks run anew."""
    head, *parts = re.split(r"(?=^<!-- shown: )", page, flags=re.M)
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            for name, fixture in re.findall(r"(\S+) = (\S+?)[, ]", part.split("\n", 1)[0]):
                shutil.copytree(ROOT / fixture, pathlib.Path(folder) / name)
            head += re.sub(r"^```(console|sh)\n(.*?)^```$",
                           lambda found: f"```{found[1]}\n{block_text(found[1], found[2], os.path.realpath(folder), shardweld)}```", part,
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
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        made = commands_text(shardweld) if page == COMMANDS else page_text(text, shardweld)
        if without_times(made) == without_times(text):
            continue
        stale.append(str(page.relative_to(ROOT)))
        if not options.check:
            page.write_text(made, encoding="utf-8")
    if missing_codes():
        sys.exit(f"docs/using/errors.md has no heading for {', '.join(missing_codes())}")
    if options.check and stale:
        sys.exit(f"not what the program prints: {', '.join(stale)}; run scripts/docs_pages.py SHARDWELD")


main()

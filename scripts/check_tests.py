#!/usr/bin/env python3
"""Whether a test of X is where its name says. Prints each that is not; exits 1 if there is one.

tests/unit/MODULE/NAME_test.cpp: NAME is a source of the module, or SOURCE_ASPECT where one source has several tests.
tests/cli/NAME_test.sh, tests/cases/NAME.txt: NAME is a command, an option, a format or a folder of tests/data, or one of these with an aspect behind it.
tests/mpi/NAME_mpi_test.cpp: NAME is a source, likewise. What fits no such name is listed here, with its reason.
Sources of tests include what lies in src by its path below src, and nothing through `../`."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNIT_SUBJECTS = {
    "app/library": "the public headers, as a program that uses the library sees them",
    "execute/strips": "strips of codes and scales through plans, rounds and journals",
    "formats/container_fixtures": "files of real frameworks, read by all containers",
    "formats/odd_checkpoints": "tests/data/megatron_odd, whole checkpoints of several formats",
    "io/file": "files written by one part and read by another",
    "layout/vectors": "tests/vectors/layout.json against the whole algebra",
    "models/families": "the built-in recipes",
}
CLI_SUBJECTS = {
    "closed_world": "what lies in a checkpoint's directory and no reader takes",
    "command_line": "output, exit codes and messages of all commands",
    "compressed_tensors": "outputs loaded by the library of this name",
    "errors": "damaged and contradicting inputs",
    "external": "commands that are programs of their own",
    "families": "recipes that no checkpoint of a framework shows",
    "formats": "what all formats must do alike",
    "fsync": "the default that --no_fsync takes back",
    "gguf": "the output format, and what is read of it",
    "hostile": "inputs made to hurt",
    "ledger": "what is accounted for of a checkpoint's bytes",
    "links": "links, pipes and devices in a checkpoint's place",
    "llama_cpp": "outputs loaded by the program of this name",
    "node_local": "shards that not all nodes see",
    "preflight": "what is refused before anything is written",
    "provenance": "files in the place of others",
    "quantised": "models that others quantised, as input",
    "sanity": "warnings about values",
    "trainers": "directories as trainers leave them",
    "transformers": "outputs loaded by the library of this name",
}
MPI_SUBJECTS = {
    "kept": "blocks that an earlier run wrote",
    "mix": "several inputs in one output",
    "same_program": "ranks of different programs",
}


def is_named(name, known):
    """Whether it is one of the known names, or one of them and an aspect."""
    parts = name.split("_")
    return any("_".join(parts[:n]) in known for n in range(1, len(parts) + 1))


def sources_of(folder):
    return {path.stem for path in folder.rglob("*") if path.suffix in (".cpp", ".hpp", ".recipe", ".dialect")}


def names_in(path, pattern):
    return set(re.findall(pattern, (ROOT / path).read_text(encoding="utf-8"), re.M))


def cli_names():
    commands = names_in("src/app/settings/commands.txt", r"^(\w+) \| ")
    commands |= {path.stem if path.stem != "__init__" else path.parent.name for path in (ROOT / "python/commands/shardweld_commands").rglob("*.py")
                 if "\nCOMMAND = " in path.read_text(encoding="utf-8")}
    options = names_in("src/app/settings/option_table.cpp", r'^\s+\{"(\w+)",')
    formats = {path.name for path in (ROOT / "src/formats").iterdir() if path.is_dir()} - {"shared", "containers"}
    return commands | options | formats | {path.name for path in (ROOT / "tests/data").iterdir()}


def misnamed():
    public = sources_of(ROOT / "include")
    unused = {*UNIT_SUBJECTS, *CLI_SUBJECTS, *MPI_SUBJECTS}
    known = cli_names()
    everywhere = sources_of(ROOT / "src")
    rules = [(path, f"{path.parent.name}/{path.stem[:-5]}", lambda path=path: is_named(path.stem[:-5], sources_of(ROOT / "src" / path.parent.name) | public),
              UNIT_SUBJECTS) for path in (ROOT / "tests/unit").glob("*/*_test.cpp")]
    rules += [(path, path.stem[:-5], lambda path=path: is_named(path.stem[:-5], known), CLI_SUBJECTS) for path in (ROOT / "tests/cli").glob("*_test.sh")]
    rules += [(path, path.stem, lambda path=path: is_named(path.stem, known), CLI_SUBJECTS) for path in (ROOT / "tests/cases").glob("*.txt")]
    rules += [(path, path.stem[:-9], lambda path=path: is_named(path.stem[:-9], everywhere), MPI_SUBJECTS) for path in (ROOT / "tests/mpi").glob("*_mpi_test.cpp")]
    for path, name, fits, subjects in rules:
        if not fits():
            listed = [subject for subject in subjects if name == subject or name.startswith(subject + "_")]
            unused -= set(listed)
            if not listed:
                yield f"{path.relative_to(ROOT)} is named for nothing that there is: name it as its source (or command, option, format), or list its subject"
    for subject in sorted(unused):
        yield f"no test needs {subject} to be listed"


def far_includes():
    for path in (ROOT / "tests").rglob("*.[ch]pp"):
        for name in re.findall(r'^#include "(\.\./[^"]*)"', path.read_text(encoding="utf-8"), re.M):
            yield f"{path.relative_to(ROOT)} includes {name} instead of the path below src or tests"


def main():
    faults = [*misnamed(), *far_includes()]
    print(*(f"check_tests: {fault}" for fault in faults), sep="\n", end="\n" if faults else "", file=sys.stderr)
    sys.exit(bool(faults))


main()

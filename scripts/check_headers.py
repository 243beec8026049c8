#!/usr/bin/env python3
"""Whether each source includes, itself or through what it includes, a header that declares each of our types it names. A unity build does not
show what is missing, and compiling each file alone takes minutes. Knows types at the outermost level of headers, not functions; prints each
fault, exits 1 if there is one."""
import collections
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("include", "src", "tests/unit", "tests/mpi", "tests/support")
SEARCHED = ("include", "tests", "tests/bench")
NOT_CODE = re.compile(r'#include[^\n]*|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\bTEST\w*\([^)]*\)', re.S)
INCLUDED = re.compile(r'^#include "([^"]+)"', re.M)
OUTERMOST = re.compile(r"^(?:struct|class|enum class)\s+(\w+)(?=[^;{]*\{)|^using\s+(\w+)\s*=", re.M)
ANY_LEVEL = re.compile(r"\b(?:struct|class|enum(?:\s+class)?|typename|using)\s+(?:\w+::)*(\w+)")
NAMED = re.compile(r"(?<![\w.>])((?:\w+::)*)([A-Z]\w+)\b")


@functools.cache
def text_of(path):
    return path.read_text(encoding="utf-8")


@functools.cache
def code_of(path):
    return NOT_CODE.sub('""', text_of(path))


@functools.cache
def declared_in(path):
    return set(ANY_LEVEL.findall(code_of(path)))


@functools.cache
def included_by(path):
    places = [[folder / name for folder in (path.parent, *(ROOT / where for where in SEARCHED))] for name in INCLUDED.findall(text_of(path))]
    return [found.resolve() for tried in places if (found := next((one for one in tried if one.is_file()), None))]


def reached_from(path):
    reached, left = {path}, [path]
    while left:
        new = set(included_by(left.pop())) - reached
        reached |= new
        left += new
    return reached


def module_of(path):
    """`core` for include/shardweld/core/ and src/core/, else the folder below tests."""
    parts = path.relative_to(ROOT).parts
    return parts[2] if parts[0] == "include" else parts[1]


def faults_of(path, owners):
    reached = reached_from(path)
    known = set().union(*map(declared_in, reached))
    for qualifiers, name in sorted(set(NAMED.findall(code_of(path)))):
        ours = not qualifiers or qualifiers.split("::")[-2] in MODULES
        # A header below src/ belongs to its module.
        possible = [one for one in owners.get(name, ()) if one.is_relative_to(ROOT / "include") or module_of(one) == module_of(path)]
        if ours and name not in known and possible:
            yield f"{path.relative_to(ROOT)} names {name} and includes nothing that declares it, such as {possible[0].relative_to(ROOT)}"


MODULES = {one.name for one in (ROOT / "include/shardweld").iterdir()} | {"shardweld"}


def main():
    files = sorted(one for folder in FOLDERS for one in (ROOT / folder).rglob("*.[ch]pp"))
    owners = collections.defaultdict(list)
    for path in files:
        if path.suffix == ".hpp" and not path.is_relative_to(ROOT / "tests"):
            for names in OUTERMOST.findall(code_of(path)):
                owners["".join(names)].append(path)
    faults = [fault for path in files for fault in faults_of(path, owners)]
    print(*(f"check_headers: {fault}" for fault in faults), sep="\n", end="\n" if faults else "", file=sys.stderr)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

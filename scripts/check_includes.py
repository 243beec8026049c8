#!/usr/bin/env python3
"""The include graph of docs/design.md as a check. Prints each violation; exits 1 if there is one.

A folder includes only what is listed for it, no files and no folders include each other in a circle, third-party headers stay where they
belong, and each source includes, itself or through what it includes, a header that declares each of our types it names: a unity build does not
show what is missing, and compiling each file alone takes minutes. It knows types at the outermost level of headers, not functions."""
import collections
import functools
import graphlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
MODULES = {  # what else a module may include
    "core": "",
    "layout": "core",
    "io": "core",
    "mpi": "core",
    "numeric": "core",
    "catalogue": "core layout",
    "models": "core layout",
    "formats": "core layout io numeric catalogue hdf5",
    "outputs": "core numeric hdf5",
    "plan": "core layout numeric catalogue models outputs",
    "adapters": "core layout catalogue models outputs plan",
    "reshape": "core layout models outputs plan",
    "execute": "core layout io mpi numeric catalogue outputs plan",
    "publish": "core io mpi numeric models outputs plan process",
    "process": "core",
    "app": "core layout io mpi numeric catalogue models formats outputs plan adapters reshape execute publish process",
    "hdf5": "core",
    "mount": "app core execute io layout mpi outputs plan process publish",
    "main.cpp": "app",
    "shared_heap_new.cpp": "core",
}
ROOMS = {  # what else of its module a subfolder may include, beside what lies at the module's top; under a module's name, all that are not listed
    "app/messages": "",
    "app/settings": "messages",
    "app/runtime": "messages settings",
    "app/report": "messages settings runtime",
    "app/survey": "messages settings runtime report",
    "app/tokenizer": "",
    "app/family": "messages settings runtime survey tokenizer",
    "app/binding": "messages settings runtime survey family",
    "app/compare": "messages settings report survey family binding",
    "app/merge": "messages settings runtime report survey family binding compare",
    "app/api": "commands messages settings runtime report survey family binding compare merge",
    "app/cli": "messages settings runtime",
    "app/commands": "cli messages settings runtime report survey family binding compare merge",
    "core/names": "",
    "core/process": "",
    "execute/listeners": "",
    "formats": "containers shared",  # each format's folder
    "formats/bytecheckpoint": "containers shared megatron",
    "formats/colossalai": "containers shared hf",
    "formats/containers": "",
    "formats/shared": "containers",
    "formats/dcp": "containers shared hf",
    "formats/torch_checkpointing": "containers shared dcp fsdp",
    "models/forms": "",
    "models/reading": "forms",
    "mpi/calls": "",
    "mpi/loading": "",
    "numeric/encodings": "",
    "outputs/gguf": "",
    "outputs/hdf5": "",
    "outputs/safetensors": "",
    "outputs/torch": "",
    "plan/bind": "",
    "plan/schedule": "bind",
}
THIRD_PARTY = (  # what is included, and by whom alone
    (r"mpi\.h", r"^src/mpi/calls/"),
    (r"hdf5\.h", r"^src/hdf5/"),
    (r"nlohmann/", r"^src/.*\.cpp$|^src/(app|publish|models|formats|adapters)/"),
)
NOT_CODE = re.compile(r'#include[^\n]*|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\bTEST\w*\([^)]*\)', re.S)
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
    folders = (path.parent, ROOT / "include", SRC, ROOT / "tests", ROOT / "tests/bench")
    names = re.findall(r'^#include "([^"]+)"', text_of(path), re.M)
    return [found for name in names if (found := next((one for folder in folders if (one := folder / name).is_file()), None))]


def reached_from(path):
    reached, left = {path}, [path]
    while left:
        new = set(included_by(left.pop())) - reached
        reached |= new
        left += new
    return reached


def shown(path):
    return path.relative_to(ROOT).as_posix()


def module_of(path):
    """The folder below src; the public headers are app's, but for the errors of core."""
    if path.is_relative_to(ROOT / "include"):
        return "core" if path.name in ("error.hpp", "events.hpp") else "app"
    return path.relative_to(SRC).parts[0]


def room_of(path):
    parts = path.relative_to(SRC).parts if path.is_relative_to(SRC) else ()
    return parts[1] if len(parts) > 2 else ""


def folder_faults(path):
    module, room = module_of(path), room_of(path)
    rooms = ROOMS.get(f"{module}/{room}", ROOMS.get(module))
    if room and rooms is None:
        yield f"{shown(path)} lies in a folder that this script does not know"
    for used in included_by(path):
        if module_of(used) != module:
            is_allowed = module_of(used) in MODULES[module].split()
        else:
            is_allowed = not room or room_of(used) in ("", room, *(rooms or "").split())
        if not is_allowed:
            yield f"{shown(path)} includes {shown(used)}"


def circles(sources, of):
    """Whether what `of` makes of files includes itself through others."""
    graph = collections.defaultdict(set)
    for path in sources:
        graph[of(path)] |= {of(used) for used in included_by(path)} - {of(path)}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as circle:
        yield "these include each other in a circle: " + " ".join(map(shown, circle.args[1]))


def third_party_faults(path):
    for pattern, allowed in THIRD_PARTY:
        if re.search(f"^#include <{pattern}", text_of(path), re.M) and not re.search(allowed, shown(path)):
            yield f"{shown(path)} includes <{pattern}> outside its place"


def undeclared(path, owners):
    known = set().union(*map(declared_in, reached_from(path)))
    module = path.relative_to(ROOT / "tests").parts[1] if path.is_relative_to(ROOT / "tests") else module_of(path)
    visible = {module, *MODULES.get(module, " ".join(MODULES)).split()}
    for qualifiers, name in sorted(set(NAMED.findall(code_of(path)))):
        is_ours = not qualifiers or qualifiers.split("::")[-2] in {*MODULES, "shardweld"}
        possible = [header for header in owners.get(name, ()) if module_of(header) in visible]
        if is_ours and name not in known and possible:
            yield f"{shown(path)} names {name} and includes nothing that declares it, such as {shown(possible[0])}"


def main():
    sources = sorted(one for folder in ("include", "src") for one in (ROOT / folder).rglob("*.[ch]pp"))
    tests = sorted(one for folder in ("unit", "mpi", "support") for one in (ROOT / "tests" / folder).rglob("*.[ch]pp"))
    owners = collections.defaultdict(list)
    for path in sources:
        for names in OUTERMOST.findall(code_of(path)) if path.suffix == ".hpp" else ():
            owners["".join(names)].append(path)
    faults = [fault for path in sources for fault in (*folder_faults(path), *third_party_faults(path))]
    faults += circles(sources, lambda path: path.with_suffix(""))  # a header and its source are one
    faults += circles(sources, lambda path: path.parent if room_of(path) else path.with_suffix(""))  # a module's top is no folder of its own
    faults += [fault for path in (*sources, *tests) for fault in undeclared(path, owners)]
    print(*(f"check_includes: {fault}" for fault in faults), sep="\n", end="\n" if faults else "", file=sys.stderr)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

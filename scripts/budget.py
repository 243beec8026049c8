#!/usr/bin/env python3
"""How much there is of the code, held against limits that only go down: scripts/budget.json. Reads the sources alone and needs no build.

    scripts/budget.py            counts, and fails where a count is over its limit or a limit was raised without a reason
    scripts/budget.py --lower    takes the counts as limits, where they are lower
    scripts/budget.py --names    lists the names of types that are defined more than once, and the long files

A limit is raised by hand, together with an entry of "raised": [what, from, to, why].
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

LONG_FILE = 500

# Comments and whitespace are no tokens; a text is one, whatever its length.
TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|(?P<token>(?:u8|[uUL])?R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?\'(?:\\.|[^\'\\\n])+\''
    r"|[A-Za-z_]\w*|\.?[0-9](?:[eEpP][+-]|'?[\w.])*|<<=|>>=|<=>|->\*|\.\.\.|::|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|<<|##|\S)", re.DOTALL)
# Its name, what it is derived from, and a body.
TYPE = re.compile(r"(?<!enum )\b(?:struct|class|union|enum(?: class| struct)?) ((?:[A-Za-z_]\w* :: )*[A-Za-z_]\w*)(?: final)?(?: :(?!:)[^;{}()]*)? \{")


def tokens_of(text):
    return [found["token"] for found in TOKEN.finditer(text) if found["token"]]


def options_of(root):
    """Rows of the option table: those of the built-in commands."""
    tokens = tokens_of((root / "src/app/settings/option_table.cpp").read_text(encoding="utf-8"))
    joined = " ".join(tokens)
    table = joined[joined.index("rows = {"):]
    names, depth, previous = [], 0, ""
    for token in table.split(" "):
        depth += (token == "{") - (token == "}")
        if depth == 2 and previous == "{" and re.fullmatch(r'"[a-z_0-9]+"', token):
            names.append(token.strip('"'))
        previous = token
        if depth == 0 and names:
            break
    return names


def counts_of(root):
    """By name; and for people the types that are defined more than once and the long files."""
    files = sorted(path for place in ("src", "include") for path in (root / place).rglob("*") if path.suffix in (".cpp", ".hpp"))
    types, long_files, n_tokens = collections.defaultdict(set), [], 0
    for path in files:
        text = path.read_text(encoding="utf-8")
        tokens = tokens_of(text)
        n_tokens += len(tokens)
        if text.count("\n") > LONG_FILE:
            long_files.append(f"{path.relative_to(root)} ({text.count(chr(10))})")
        for name in TYPE.findall(" ".join(tokens)):
            types[name].add(str(path.relative_to(root)))
    twice = {name: sorted(places) for name, places in types.items() if len(places) > 1}
    python = sum(path.read_text(encoding="utf-8").count("\n") for path in (root / "python/commands").rglob("*.py"))
    counts = {"C++ tokens": n_tokens, "named types": sum(len(places) for places in types.values()), "names defined twice": len(twice),
              "options": len(options_of(root)), "files of more than 500 lines": len(long_files), "lines of Python in commands": python}
    return counts, twice, long_files


def earlier_limits(root):
    """Those of the file's versions before, the newest first; nothing where there is no history."""
    def git(*words):
        done = subprocess.run(["git", "-C", str(root), *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        return done.stdout.decode() if done.returncode == 0 else ""

    try:
        versions = git("rev-list", "-n", "50", "HEAD", "--", "scripts/budget.json").split()
        return [json.loads(git("show", f"{version}:scripts/budget.json") or "{}") for version in versions]
    except OSError:
        return []


def faults_of(counts, budget, earlier):
    faults = [f"{name}: {count}, at most {budget['limits'].get(name)}: take something away" for name, count in counts.items()
              if count > budget["limits"].get(name, -1)]
    explained = {(what, start, end) for what, start, end, why in budget["raised"] if why.strip()}
    for newer, older in zip([budget] + earlier, earlier):
        for name, limit in newer.get("limits", {}).items():
            before = older.get("limits", {}).get(name, limit)
            if limit > before and (name, before, limit) not in explained:
                faults.append(f'{name}: the limit was raised from {before} to {limit}; add ["{name}", {before}, {limit}, WHY] to "raised"')
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lower", action="store_true")
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    place = options.root / "scripts/budget.json"
    counts, twice, long_files = counts_of(options.root)
    budget = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {"limits": {}, "raised": []}
    if options.lower:
        budget["limits"] = {name: min(count, budget["limits"].get(name, count)) for name, count in counts.items()}
        raised = ",\n".join("  " + json.dumps(row) for row in budget["raised"])
        limits = ",\n".join(f"  {json.dumps(name)}: {limit}" for name, limit in budget["limits"].items())
        place.write_text(f'{{"limits": {{\n{limits}}},\n "raised": [{raised and chr(10)}{raised}]}}\n', encoding="utf-8")
    for name, count in counts.items():
        print(f"{name:<30}{count:>9} of {budget['limits'].get(name, 'no limit')}")
    if options.names:
        print("\n".join(f"{name}: {', '.join(places)}" for name, places in sorted(twice.items())))
        print("\n".join(long_files))
    faults = faults_of(counts, budget, earlier_limits(options.root))
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

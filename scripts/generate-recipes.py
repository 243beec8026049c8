#!/usr/bin/env python3
"""Usage: generate-recipes.py PROGRAM [TYPE...]      (needs torch and transformers; two hours for all types)

src/models/recipes/generated anew: what `shardweld recipes generate` makes and proves of the model types that no one wrote a recipe for. TYPE.recipe is kept
for each proved type whose tensors are renamed or cut anew, and proved.list has a line for each type that was tried: "TYPE plain" (saved as the module tree
has it), "TYPE renamed", "TYPE cut", "TYPE cut one-way" (the program refuses to write it back, for the saved tensors do not tell where they are to be cut)
or "TYPE refused REASON". Without TYPE: all that transformers has.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "src/models/recipes/generated"
COMMAND = "import sys; from shardweld_commands.recipes_generate import COMMAND; sys.exit(COMMAND.start(sys.argv[1:]))"


def hand_written():
    lines = [line for path in OUT.parent.glob("*.recipe") for line in path.read_text().splitlines() if line.startswith("match")]
    return {name for line in lines for name in re.findall(r'"([^"]+)"', line.split(" and ")[0])}


def main():
    import transformers

    os.environ.update(SHARDWELD_PROGRAM=os.path.abspath(sys.argv[1]), PYTHONPATH=str(ROOT / "python/commands"))
    types = sys.argv[2:] or sorted(set(transformers.CONFIG_MAPPING) - hand_written())
    record = OUT / "proved.list"
    rows = dict(line.split(" ", 1) for line in record.read_text().splitlines() if line[0] != "#") if sys.argv[2:] else {}
    for model_type in types:
        (OUT / f"{model_type}.recipe").unlink(missing_ok=True)
    asked = subprocess.Popen([sys.executable, "-c", COMMAND, *types, "--out", OUT, "-q"], stdout=subprocess.PIPE, text=True)
    for line in asked.stdout:
        print(line, end="", flush=True)
        model_type, kind = line.strip().split(" ", 1)
        rows[model_type] = kind
        if kind == "plain":
            (OUT / f"{model_type}.recipe").unlink()
        head = f"# Made by scripts/generate-recipes.py of transformers {transformers.__version__}; do not edit"
        record.write_text("\n".join([head, *(f"{name} {rows[name]}" for name in sorted(rows))]) + "\n")
    print(collections.Counter(kind.split()[0] for kind in rows.values()))


main()

"""Usage: plan_tables.py SHARDWELD TABLES WORK [NAME..]

Holds the recipes against tables of names and shapes (tests/data/hf_names): what transformers' save_pretrained writes for a small model of
each class, or what the bridges of Megatron name where there is no class. Each table becomes a finished model whose bytes are a hole, once
under the names of the file and once under those of the module, and is planned. The plan must have the names and shapes of the file: none
missing, none extra, and be made by a recipe.

A table: `config`, `saved` and, where it differs, `module`: pattern -> shape -> the numbers that fill its braces.
"""

import json
import math
import pathlib
import subprocess
import sys


def unfolded(table):
    names = {}
    for pattern, shapes in table.items():
        for shape, fillings in shapes.items():
            for numbers in fillings.split(" "):
                names[pattern.format(*numbers.split("."))] = [int(extent) for extent in shape.split("x") if extent]
    return names


def write_model(directory, config, names):
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config))
    header, end = {}, 0
    for name, shape in names.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(directory / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def differences(got, expected):
    for name in sorted(expected.keys() | got.keys()):
        if name not in got:
            yield f"{name} is missing"
        elif name not in expected:
            yield f"{name} is extra"
        elif got[name] != expected[name]:
            yield f"{name} is {got[name]}, not {expected[name]}"


def faults_of(shardweld, directory, config, expected):
    run = subprocess.run([shardweld, "plan", "--local_dir", directory, "--backend", "hf", "--json"], capture_output=True, text=True)
    if run.returncode:
        return [f"exit code {run.returncode}: {run.stderr[:500]}"]
    plan = json.loads(run.stdout)
    faults = list(differences({tensor["name"]: tensor["shape"] for tensor in plan["tensors"]}, expected))
    if plan["recipe"] == "module_tree":
        faults.append(f"{config['model_type']} has no recipe")
    if "no part of the" in run.stderr:
        faults.append(run.stderr)
    return faults


def main():
    shardweld, tables, work, *wanted = sys.argv[1:]
    n_plans = n_failed = 0
    for path in sorted(pathlib.Path(tables).glob("*.json")):
        if wanted and path.stem not in wanted:
            continue
        table = json.loads(path.read_text())
        expected = unfolded(table["saved"])
        for form in ("saved", "module"):
            if form not in table:
                continue
            directory = pathlib.Path(work) / f"{path.stem}.{form}"
            write_model(directory, table["config"], unfolded(table[form]))
            faults = faults_of(shardweld, directory, table["config"], expected)
            n_plans += 1
            n_failed += bool(faults)
            for fault in faults[:5]:
                print(f"FAILED: {path.stem}, names of the {form} form: {fault}")
    print(f"{n_plans} plans, {n_failed} failed")
    sys.exit(n_failed > 0 or n_plans == 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What recipes were checked against, from the tests' own data: src/models/recipes/verified.list, and the tables of docs/using/families.md and README.md.

    scripts/verified.py [--bin DIR] [--check] [--families DIR]

A checkpoint of a real framework counts if a test compares its merge with an expected model (tests/data/*/CASE with `source` and `expected`);
those that were made by hand (`-made`) do not. Its recipe and format are what `shardweld plan` says. Tables of names and shapes
(tests/data/hf_names) count as such. --families: a directory of tests/support/make_families.py, whose models are merged and compared here;
without it what the list says of them stays. --check changes nothing and fails where something would change.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests/data"
LIST = ROOT / "src/models/recipes/verified.list"
PROVED = ROOT / "src/models/recipes/generated/proved.list"
PAGE = ROOT / "docs/using/families.md"
HEAD = "# What recipes were checked against, by format. Made by scripts/verified.py from the tests; do not edit.\n"
GROUPS = ["megatron", "megatron_more", "megatron_families", "torch", "world", "deepspeed", "bytecheckpoint", "colossalai"]
MADE = "transformers/"
# Where the comment at a recipe's head does not name all of its model types.
NAMES = {
    "bailing_moe": "Ling and Ring (Bailing MoE), Sarvam",
    "cohere": "Cohere (Command R), Cohere 2",
    "llama": "Llama, Mistral, Ministral",
    "llava": "LLaVA, LLaVA-NeXT, LLaVA-OneVision, Llama 3.2 Vision, VipLLaVA",
    "nemotron_nas": "Nemotron NAS (DeciLM)",
    "paligemma": "PaliGemma, InternVL, Aya Vision",
    "roberta": "RoBERTa, XLM-RoBERTa, CamemBERT",
    "roberta_prelayernorm": "RoBERTa-PreLayerNorm",
    "voxtral": "Voxtral, Audio Flamingo 3, GLM-ASR, Music Flamingo",
}
sys.path.insert(0, str(ROOT / "tests/support"))
import marked_page  # noqa: E402
import plan_tables  # noqa: E402


def planned(shardweld, *arguments):
    """Recipe and format of a plan, or None."""
    run = subprocess.run([shardweld, "plan", "--json", *map(str, arguments)], capture_output=True, text=True)
    if run.returncode:
        return None
    plan = json.loads(run.stdout)
    return plan["recipe"], plan["input"]["format"]


def check_of_case(shardweld, case):
    config = ["--hf_config", case / "hf"] if (case / "hf").is_dir() else []
    found = planned(shardweld, "--local_dir", case / "source", *config)
    # torchtitan's names are its own; its files are torch's.
    return found and (found[0], "torchtitan" if case.name.startswith("torchtitan_") else found[1], case.name)


def check_of_table(shardweld, path, work):
    table = json.loads(path.read_text())
    plan_tables.write_model(work / path.stem, table["config"], plan_tables.unfolded(table["saved"]))
    found = planned(shardweld, "--local_dir", work / path.stem, "--backend", "hf")
    return found and (found[0], "names", path.stem)


def check_of_made(shardweld, directory, form, work):
    expected, out, report = directory / "expected", work / f"{directory.name}.{form}", work / f"{directory.name}.{form}.json"
    merge = [shardweld, "merge", "--local_dir", directory / form, "--hf_config", expected, "--target_dir", out, "--report", report, "-q", "--no_fsync"]
    compare = [sys.executable, ROOT / "tests/support/compare_safetensors.py", out, expected]
    if any(subprocess.run(command, capture_output=True).returncode for command in (merge, compare)):
        print(f"{directory.name}, {form}: not as save_pretrained writes it", file=sys.stderr)
        return None
    found = json.loads(report.read_text())
    return found["recipe"]["name"], found["input"]["format"], MADE + directory.name


def cases():
    for group in GROUPS:
        for case in sorted((DATA / group).iterdir()):
            if (case / "source").is_dir() and (case / "expected").is_dir() and not case.name.endswith("-made"):
                yield case


def read_list():
    rows = [line.split(" | ") for line in LIST.read_text().splitlines() if not line.startswith("#")]
    return {(recipe, form): names.split() for recipe, form, names in rows}


def all_checks(shardweld, families):
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        work = pathlib.Path(folder)
        todo = [pool.submit(check_of_case, shardweld, case) for case in cases()]
        todo += [pool.submit(check_of_table, shardweld, path, work) for path in sorted((DATA / "hf_names").glob("*.json"))]
        for directory in sorted(families.iterdir()) if families else []:
            todo += [pool.submit(check_of_made, shardweld, directory, form, work) for form in ("fsdp", "dcp") if (directory / form).is_dir()]
        found = [one.result() for one in todo]
    if not families:
        found += [(recipe, form, name) for (recipe, form), names in read_list().items() for name in names if name.startswith(MADE)]
    checks = collections.defaultdict(set)
    for one in found:
        if one and one[0] != "module_tree":
            checks[one[0], one[1]].add(one[2])
    return checks


def list_text(checks):
    return HEAD + "".join(f"{recipe} | {form} | {' '.join(sorted(names))}\n" for (recipe, form), names in sorted(checks.items()))


def table_of(listing):
    """The table that `shardweld recipes` prints, as rows of cells."""
    head, *lines = listing.split("\n\n")[0].splitlines()
    begins = [found.start() for found in re.finditer(r"(?<=  )\S|^\S", head)]
    rows = []
    for line in lines:
        cells = [line[a:b].strip() for a, b in zip(begins, [*begins[1:], None])]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1][1] += f" {cells[1]}" if rows[-1][1].endswith(",") else f", {cells[1]}"
    return [re.split(r"\s{2,}", head.strip()), *rows]


def names_of(recipe):
    """What people call the family: how the comment at the head of its recipe begins, and model types that it does not name."""
    head = (LIST.parent / f"{recipe}.recipe").read_text().split("\nrecipe ")[0].replace("\n#", "").removeprefix("# ")
    begin = re.split(r"[:.](?: |$)", head)[0]
    begin = re.split(r" with | whose | trained | and the families | and its kin| as transformers|, saved|'s (?!own)| of neural|'s own code| as first", begin)[0]
    return NAMES.get(recipe, begin)


def families_table(listing):
    head, *rows = table_of(listing)
    assert set(NAMES) <= {cells[0] for cells in rows}, "NAMES has a recipe that is not there"
    return marked_page.table(["family", *head], [[names_of(cells[0]), f"`{cells[0]}`", *cells[1:]] for cells in rows])


def generated_table(_):
    """What scripts/generate-recipes.py proved of model types without a recipe of their own."""
    rows = [line.split(" ", 1) for line in PROVED.read_text().splitlines() if not line.startswith("#")]
    kinds = {"plain": "saved as the module tree has them", "renamed": "renamed", "cut": "renamed and cut anew",
             "cut one-way": "as before; not written back, for a saved tensor does not tell where it is to be cut"}
    table = [[text, str(sum(kind == one for _, one in rows)), ", ".join(f"`{name}`" for name, one in rows if one == kind)] for kind, text in kinds.items()]
    table += [["refused", "1", f"`{name}`: {kind.split(' ', 1)[1].replace('|', '/')}"] for name, kind in rows if kind.startswith("refused")]
    return marked_page.table(["tensors are", "types", ""], table)


def counts_text(listing):
    _, *rows = table_of(listing)
    rows = [cells for cells in rows if cells[0] != "module_tree"]
    by_files = sum(any(cell.isdigit() for cell in cells[2:]) for cells in rows)
    by_names = sum("names" in cells[2:] and not any(cell.isdigit() for cell in cells[2:]) for cells in rows)
    return (f"{len(rows)} [model families](docs/using/families.md), from Llama, Qwen and DeepSeek to BERT: {by_files} are tested byte for byte against checkpoints\n"
            f"of real frameworks, {by_names} more against names and shapes of real models.\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=ROOT / "build/bin", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--families", type=pathlib.Path)
    options = parser.parse_args()
    shardweld = (options.bin / "shardweld").absolute()
    text = list_text(all_checks(shardweld, options.families))
    is_same = text == LIST.read_text()
    if not is_same and not options.check:
        LIST.write_text(text)
        print("build again and run once more: the program lists what it was built with")
    listing = subprocess.run([shardweld, "recipes"], capture_output=True, text=True, check=True).stdout
    tables = {"families": families_table, "counts": counts_text, "generated": generated_table}
    for page in (PAGE, ROOT / "README.md"):
        is_same = marked_page.update(page, tables, listing, options.check) and is_same
    if options.check and not is_same:
        sys.exit("what recipes were checked against has changed: run scripts/verified.py")


main()

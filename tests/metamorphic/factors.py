"""LoRA factors on each kind of matrix of each model of tests/data. Called by scripts/metamorphic.sh factors and ctest; --help says more."""
import argparse
import array
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import fixture as fixtures_module
import merge
import trips

ROOT = trips.ROOT
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import add_factors  # noqa: E402
import edit_safetensors  # noqa: E402

DATA = ("megatron", "megatron_families", "megatron_more", "torch")
EMBEDDING = re.compile(r"embed|wte|wpe|lm_head|output\.weight|output_layer")
REFUSALS = (*merge.REFUSALS, 13)
ABOUT = """Puts a pair of factors on one matrix of each kind of every model of tests/data, as PEFT names them beside the model and as Megatron-Bridge
does in legacy saves of one and two ranks that reshape writes of it, and folds it into the model, into training files, splits or drops it. It must be refused with a documented code,
or the folded weight is W + alpha/r B A and all others are as they were, and what is split off folds to the same. Anything else, such as code 70, is printed as
    FAILED fixture | matrix | what | code | detail
and exit code 1."""


@dataclasses.dataclass(frozen=True)
class Try:
    matrix: str
    what: str
    outcome: str  # "same", "refused" or "failed"
    detail: str = ""


def kind_of(name):
    """Matrices of one kind differ in their numbers: of layers, experts, blocks."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", name)


def first_of_kinds(names):
    found = {}
    for name in sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]):
        found.setdefault(kind_of(name), name)
    return sorted(found.values())


def floats(tensor):
    return array.array("f", bytes(tensor[2]))


def far(got, expected):
    """What differs by more than sums in another order do; "" where nothing does."""
    if got.keys() != expected.keys():
        return f"other tensors: {sorted(got.keys() ^ expected.keys())[:3]}"
    for name, tensor in expected.items():
        if bytes(tensor[2]) != bytes(got[name][2]):
            one, other = floats(got[name]), floats(tensor)
            limit = 1e-5 * max(map(abs, other))
            if len(one) != len(other) or not all(abs(a - b) <= limit for a, b in zip(one, other)):
                return f"{name} has other values"
    return ""


class Factors:
    """All kinds of matrices of one model."""

    def __init__(self, program, fixture, work):
        self.program, self.fixture, self.work = program, fixture, os.path.join(work, fixture.name.replace("/", "+"))
        self.model = self.place("model")
        self.whole_shapes = {}  # of the weights of one rank

    def place(self, name):
        return os.path.join(self.work, name)

    def tried(self, matrices, what, expected, *arguments):
        """One run into `out`; `expected` makes the model that a fold gives, None: only the code is looked at."""
        out = self.place("out")
        shutil.rmtree(out, ignore_errors=True)
        code, message = trips.run(self.program, *arguments[:2], out, *arguments[2:])
        matrix = matrices[0] if len(matrices) == 1 else f"{len(matrices)} kinds"
        if code in REFUSALS:
            return Try(matrix, what, "refused", f"{code} {message}")
        if code != 0:
            return Try(matrix, what, "failed", f"{code} {message}")
        detail = far(edit_safetensors.read(out), expected()) if expected else ""
        return Try(matrix, what, "failed" if detail else "same", detail)

    def folded_again(self):
        """What was split off, folded into what it was split from, is what was folded at once."""
        out, again = self.place("out"), self.place("again")
        shutil.rmtree(again, ignore_errors=True)
        code, message = trips.run(self.program, "merge", os.path.join(out, "lora_adapter"), again, "--base", out, "--lora", "fold")
        if code == 5:  # of a module that transformers makes of the base's files
            return ""
        return far(edit_safetensors.read(again), edit_safetensors.read(self.place("folded"))) if code == 0 else f"{code} {message}"

    @staticmethod
    def each(names, run):
        """All kinds at once, and where that does not come out alike, and of embeddings and heads, each alone: folded into one matrix of a tied pair it
        gives two."""
        names = first_of_kinds(names)
        together = [name for name in names if not EMBEDDING.search(name)]
        tries = list(run(together, True)) if together else []
        alone = names if any(one.outcome != "same" for one in tries) else [name for name in names if name not in together]
        return tries + [one for name in alone for one in run([name], name in together)]

    def beside(self):
        """As PEFT's own directory."""
        tensors, adapter = edit_safetensors.read(self.model), self.place("adapter")
        os.makedirs(adapter)
        with open(os.path.join(self.model, "config.json"), encoding="utf-8") as file:
            is_turned = '"gpt2"' in file.read()  # whose matrices lie with their input first

        def write(names):
            """The adapter; the tensors of the model with it folded in."""
            made, factors = dict(tensors), {}
            for seed, name in enumerate(names):
                rows, cols = tensors[name][1]
                n_out, n_in = (cols, rows) if is_turned else (rows, cols)
                down, up = add_factors.values(seed, 2 * n_in), add_factors.values(seed + 1, 2 * n_out)
                module = "base_model.model." + name[:-len(".weight")]
                factors[module + ".lora_A.weight"] = ["F32", [2, n_in], down.tobytes()]
                factors[module + ".lora_B.weight"] = ["F32", [n_out, 2], up.tobytes()]
                change = list(add_factors.product(down, up, n_in))
                if is_turned:
                    change = [change[out * n_in + at] for at in range(n_in) for out in range(n_out)]
                made[name] = ["F32", [rows, cols], bytearray(array.array("f", (a + b for a, b in zip(floats(tensors[name]), change))).tobytes())]
            edit_safetensors.write(os.path.join(adapter, "adapter_model.safetensors"), factors)
            with open(os.path.join(adapter, "adapter_config.json"), "w", encoding="utf-8") as file:
                json.dump({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": [name[:-len(".weight")] for name in names],
                           "fan_in_fan_out": is_turned, "bias": "none"}, file)
            return made

        def run(names, is_compared):
            folded = write(names)
            yield self.tried(names, "fold", (lambda: folded) if is_compared else None, "merge", adapter, "--base", self.model, "--lora", "fold")
            yield self.tried(names, "fold to torch_dist", None, "reshape", adapter, "--base", self.model, "--lora", "fold", "--to", "torch_dist")
            yield self.tried(names, "split", None, "merge", adapter, "--base", self.model)

        return self.each([name for name, tensor in tensors.items() if len(tensor[1]) == 2 and name.endswith(".weight") and tensor[0] == "F32"], run)

    def inside(self):
        """As Megatron-Bridge's names in the files of a run."""
        return [*self.of_ranks(1), *self.of_ranks(2)]

    def of_ranks(self, n_ranks):
        """Of so many tensor-parallel ranks."""
        plain, source = self.place(f"plain{n_ranks}"), self.place("source")
        code, message = trips.run(self.program, "reshape", self.model, plain, "--to", f"legacy:tp={n_ranks}")
        if code != 0:
            return [Try("", f"reshape to {n_ranks}", "refused" if code in REFUSALS else "failed", f"{code} {message}")]
        inner = sorted(os.path.relpath(os.path.join(root, name), plain) for root, _, names in os.walk(plain) for name in names
                       if name == "model_optim_rng.pt")
        saves = [add_factors.Save(os.path.join(plain, file)) for file in inner]
        shapes = {name: save.tensor(name).args[2] for save in saves[:1] for name in save.model if isinstance(name, str) and name.endswith(".weight")
                  and save.tensor(name) is not None and len(save.tensor(name).args[2]) == 2 and save.tensor(name).args[0].fields[1].place[1] == "FloatStorage"}
        if n_ranks == 1:
            self.whole_shapes = shapes

        def write(names, **options):
            shutil.rmtree(source, ignore_errors=True)
            shutil.copytree(plain, source)
            made = [add_factors.Save(os.path.join(source, file)) for file in inner]
            for seed, name in enumerate(names):
                if n_ranks == 1:
                    add_factors.add(made[0], name, seed, options)
                else:
                    # Rows that fill up a vocabulary are as many as ranks want; those of a head for labels or values are every rank's.
                    rows, cols = shapes[name]
                    is_filled = re.search("word_embeddings|output_layer", name) and len({save.bytes_of(name) for save in made}) > 1
                    whole = (rows * n_ranks, cols) if is_filled else self.whole_shapes[name]
                    add_factors.add_to_ranks(made, name, seed, whole, options)
            for save in made:
                save.write()

        def expected(names):
            write(names, sum="yes")
            out = self.place("sum")
            shutil.rmtree(out, ignore_errors=True)
            code, message = trips.run(self.program, "merge", source, out, "--hf_config", self.model)
            return edit_safetensors.read(out) if code == 0 else {message: []}

        def run(names, is_compared):
            arguments = ("merge", source, "--hf_config", self.model, "--lora_alpha", "4")
            at = f"in Megatron's names of {n_ranks}"
            write(names)
            fold = self.tried(names, "fold " + at, (lambda: expected(names)) if is_compared else None, *arguments, "--lora", "fold")
            yield fold
            shutil.rmtree(self.place("folded"), ignore_errors=True)
            if fold.outcome == "same":
                os.rename(self.place("out"), self.place("folded"))
            write(names)
            split = self.tried(names, "split " + at, None, *arguments)
            detail = self.folded_again() if fold.outcome == split.outcome == "same" else ""
            yield dataclasses.replace(split, outcome="failed", detail=detail) if detail else split
            yield self.tried(names, "drop " + at, lambda: edit_safetensors.read(self.model), *arguments, "--lora", "drop")
            shown = subprocess.run([self.program, "inspect", source, "--json", "-q"], capture_output=True, text=True, check=False, env=merge.environment())
            missing = [name for name in names if name[:-len("weight")] + "adapter.linear_out" not in shown.stdout]
            yield dataclasses.replace(fold, what="inspect " + at, outcome="failed" if shown.returncode or missing else "same", detail=f"{missing} {shown.stderr}")

        return self.each([name for name in shapes if name in self.whole_shapes], run)

    def all(self, wanted):
        os.makedirs(self.work)
        try:
            code, message = trips.run(self.program, "merge", *self.fixture.arguments(self.fixture.whole), "--target_dir", self.model, "--dtype", "fp32")
            if code != 0:
                return [Try("", "merge", "refused" if code in REFUSALS else "failed", f"{code} {message}")]
            if not any(name.endswith(".safetensors") for name in os.listdir(self.model)):
                return []  # an adapter alone
            return [one for way in (self.beside, self.inside) if way.__name__ in wanted for one in way()]
        finally:
            shutil.rmtree(self.work)


def main():
    parser = argparse.ArgumentParser(prog="scripts/metamorphic.sh factors", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"), help="where the program is (build/bin)")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[""], help="LIST: fixtures with one of these in their names")
    parser.add_argument("--ways", nargs="+", default=["beside", "inside"], help="PEFT's directory beside the model, Megatron-Bridge's names inside (both)")
    parser.add_argument("--sample", type=int, default=0, help="so many fixtures, the same ones every time")
    parser.add_argument("--list", action="store_true", help="print every try and what came of it")
    parser.add_argument("--jobs", type=int, default=2, help="models at a time (2)")
    given = parser.parse_args()
    begin, counts = time.monotonic(), Counter()
    program = os.path.join(os.path.realpath(given.bin), "shardweld")
    with tempfile.TemporaryDirectory(prefix="shardweld-factors.", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as work, \
            ThreadPoolExecutor(given.jobs) as pool:
        found = [one for one in fixtures_module.find(os.path.join(ROOT, "tests/data"), [], work, DATA) if any(part in one.name for part in given.only)]
        found = sorted(found, key=lambda one: zlib.crc32(one.name.encode()))[:given.sample or None]
        for one, tries in zip(found, pool.map(lambda one: Factors(program, one, work).all(given.ways), found)):
            for each in tries:
                counts[each.outcome] += 1
                if each.outcome == "failed" or given.list:
                    print(f"{each.outcome.upper()} {one.name} | {each.matrix} | {each.what} | {each.detail[:200]}", flush=True)
    print(f"{len(found)} models, " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())) + f", {time.monotonic() - begin:.0f} s")
    return 1 if counts["failed"] or not counts["same"] else 0


if __name__ == "__main__":
    sys.exit(main())

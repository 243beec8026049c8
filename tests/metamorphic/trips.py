"""Models of tests/data written as training checkpoints and read again. Called by scripts/metamorphic.sh trips and ctest; --help says more."""
import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import fixture as fixtures_module
import merge

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
FORMS = ("torch_dist", "torch_dist:layers=separate", "torch_dist:spec=local", "legacy:tp=2", "legacy:pp=2,first=1", "legacy:ep=2", "fsdp:world=3", "dcp:world=2")
DATA = ("megatron", "megatron_families", "megatron_more", "torch", "hf")
# What one cannot ask of every model; each message names what stands against it.
REFUSALS = {5: "cannot be written|have no name in|straight from this|stage of it is not known", 6: "cannot be spread|would spread|does not divide"}
ABOUT = """Writes the model of every checkpoint of tests/data in every form of `reshape`, and holds four relations against the files:
    back       merge gives the model's tensors back
    ranks      three ranks under mpirun write the files that one process writes
    straight   the next form, written from this one, has the files of the next form written from the model
    refused    what cannot be written is refused with its name, and leaves nothing
Prints FAILED fixture | form | relation | detail for each that does not hold, and exits 1."""


@dataclass(frozen=True)
class Trip:
    fixture: str
    form: str
    outcome: str  # "same", "refused", or the relation that does not hold
    detail: str = ""


def run(program, *arguments, ranks=1):
    """(exit code, the error's message)"""
    launcher = ("mpirun", "-n", str(ranks)) if ranks > 1 else ()
    # One process needs nothing of what merge.environment leaves out; several do.
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                   "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
    done = subprocess.run([*launcher, program, *arguments, "-q", "--no_fsync"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          env=environment if ranks > 1 else merge.environment())
    found = re.search(r"^error: (.*)$", done.stderr, re.M)
    return done.returncode, found[1] if found else done.stderr[-300:]


def digests(directory):
    """{file: digest} of all files but the report, which has times."""
    found = {}
    for root, _, names in os.walk(directory):
        for name in set(names) - {"shardweld_report.json"}:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, directory)] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def other(got, expected):
    """Names of what is not the same, in words; "" where all is."""
    names = sorted(name for name in got.keys() | expected.keys() if got.get(name) != expected.get(name))
    return f"{len(names)} of {len(expected)} differ: {names[:3]}" if names else ""


class Trips:
    """All forms of one model."""

    def __init__(self, program, fixture, work, n_ranks):
        self.program, self.fixture, self.work, self.n_ranks = program, fixture, os.path.join(work, fixture.name.replace("/", "+")), n_ranks
        self.model, self.written = os.path.join(self.work, "model"), {}

    def place(self, name):
        return os.path.join(self.work, name.replace(":", "+"))

    def trip(self, form):
        code, message = run(self.program, "reshape", self.model, self.place(form), "--to", form)
        if code != 0:
            return Trip(self.fixture.name, form, self.refused(code, message, form) or "written", f"{code} {message}")
        self.written[form] = digests(self.place(form))
        return self.back(form) or self.ranks(form) or Trip(self.fixture.name, form, "same")

    def refused(self, code, message, name):
        """"refused" where that is all that happened, else None."""
        return "refused" if re.search(REFUSALS.get(code, "^$"), message) and not os.path.exists(self.place(name)) else None

    def back(self, form):
        code, message = run(self.program, "merge", self.place(form), self.place("back"), "--hf_config", self.model)
        detail = f"{code} {message}" if code else other(merge.tensors_of(self.place("back")), merge.tensors_of(self.model))
        shutil.rmtree(self.place("back"), ignore_errors=True)
        return Trip(self.fixture.name, form, "back", detail) if detail else None

    def ranks(self, form):
        if self.n_ranks == 1:
            return None
        code, message = run(self.program, "reshape", self.model, self.place("ranks"), "--to", form, ranks=self.n_ranks)
        detail = f"{code} {message}" if code else other(digests(self.place("ranks")), self.written[form])
        shutil.rmtree(self.place("ranks"), ignore_errors=True)
        return Trip(self.fixture.name, form, "ranks", detail) if detail else None

    def straight(self, form, to):
        code, message = run(self.program, "reshape", self.place(form), self.place("straight"), "--to", to, "--hf_config", self.model)
        detail = f"{code} {message}" if code else other(digests(self.place("straight")), self.written[to])
        outcome = (self.refused(code, message, "straight") or "straight") if detail else "same"
        shutil.rmtree(self.place("straight"), ignore_errors=True)
        return Trip(self.fixture.name, form, outcome, f"to {to}: {detail}" if detail else "")

    def all(self, forms):
        os.makedirs(self.work)
        try:
            code, message = run(self.program, "merge", *self.fixture.arguments(self.fixture.whole), "--target_dir", self.model)
            if code != 0:
                return [Trip(self.fixture.name, "hf", "merged", f"{code} {message}")]
            if not any(name.endswith(".safetensors") for name in os.listdir(self.model)):
                return []  # an adapter alone
            trips = [self.trip(form) for form in forms]
            there = [trip.form for trip in trips if trip.outcome == "same"]
            return trips + [self.straight(*pair) for pair in zip(there, there[1:] + there[:1])]
        finally:
            shutil.rmtree(self.work)


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/metamorphic.sh trips", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"), help="where the program is (build/bin)")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[""], help="LIST: fixtures with one of these in their names")
    parser.add_argument("--forms", nargs="+", default=FORMS, help="forms as --to has them (default all)")
    parser.add_argument("--ranks", type=int, default=3, help="how many ranks write each form once more (3; 1: none)")
    parser.add_argument("--list", action="store_true", help="print every trip and what came of it")
    parser.add_argument("--dir", default="/dev/shm" if os.path.isdir("/dev/shm") else None, help="where to work (/dev/shm)")
    parser.add_argument("--jobs", type=int, default=2, help="models at a time (2)")
    return parser.parse_args()


def main():
    given, begin, counts = arguments(), time.monotonic(), Counter()
    program = os.path.join(os.path.realpath(given.bin), "shardweld")
    with tempfile.TemporaryDirectory(prefix="shardweld-trips.", dir=given.dir) as work, ThreadPoolExecutor(given.jobs) as pool:
        fixtures = [one for one in fixtures_module.find(os.path.join(ROOT, "tests/data"), [], work, DATA) if any(part in one.name for part in given.only)]
        for trips in pool.map(lambda one: Trips(program, one, work, given.ranks).all(given.forms), fixtures):
            for trip in trips:
                counts[trip.outcome] += 1
                is_failed = trip.outcome not in ("same", "refused")
                if is_failed or given.list:
                    print(f"{'FAILED' if is_failed else 'OK'} {trip.fixture} | {trip.form} | {trip.outcome} | {trip.detail}", flush=True)
    n_failed = sum(n for outcome, n in counts.items() if outcome not in ("same", "refused"))
    print(f"{len(fixtures)} models, " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())) + f", {time.monotonic() - begin:.0f} s")
    return 1 if n_failed or not counts["same"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""Changes checkpoints and merges them. Called by scripts/metamorphic.sh and ctest; --help says more."""
import argparse
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import config_numbers
import fixture as fixtures_module
import merge
import metadata_bytes
import page
import records
import side_files
import verdict
import whole_files

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
WAYS = {"exchanges": whole_files.exchanges, "left_out": whole_files.left_out, "doubled": whole_files.doubled, "siblings": whole_files.siblings,
        "records": records.changes, "integers": config_numbers.integers, "config": config_numbers.others, "bytes": metadata_bytes.changes,
        "side_files": side_files.before, "meanwhile": side_files.meanwhile}
ABOUT = """Changes checkpoints of tests/data in every way that a stale directory, a swapped file or a damaged byte brings about, and merges each with the real
program. A merge must be refused with a documented code and one message, or give the tensors and the config.json of the unchanged checkpoint, or be on the
list of what cannot be detected (tests/metamorphic/undetectable.json, published in docs/measurements/changed-checkpoints.md). Anything else is a failure, printed as
    FAILED fixture | kind of change | change | exit code | what differs
and exit code 1. Without --sample the record is kept in docs/measurements/metamorphic.json and the tables of
docs/measurements/changed-checkpoints.md are made anew."""


class Runner:
    def __init__(self, program, work):
        self.program, self.work = program, work
        self.library = os.path.join(os.path.dirname(program), "../lib/faults.so")
        self.expected, self.entries = {}, verdict.load()

    def baseline(self, fixture, options=()):
        """The unchanged checkpoint merged; its model is what changed ones are held against."""
        done = merge.run(self.program, fixture.arguments(fixture.whole), os.path.join(self.work, "out", os.path.basename(fixture.whole) + "".join(options)),
                         options=options)
        if done.code == 0:
            self.expected[fixture.name] = done.model
        return done

    def try_one(self, fixture, change, number):
        place = fixture.staged(os.path.join(self.work, "changed", str(number)))
        out = os.path.join(self.work, "out", str(number))
        try:
            change.make(place)
            faults = merge.faults(self.library, change.meanwhile, place, out) if change.meanwhile else None
            done = merge.run(self.program, fixture.arguments(place), out, faults, inputs=[os.path.join(place, name) for name in change.touches])
        finally:
            shutil.rmtree(place)
        return verdict.judge(fixture, change, done, self.expected[fixture.name], self.entries)


def spread(tasks, n):
    """A part of all tasks, the same one every time: of each fixture, each kind of change and each kind on each layout one, then what comes first by its
    checksum."""
    tasks = sorted(tasks, key=lambda task: zlib.crc32(f"{task[0].name} {task[1].kind} {task[1].what}".encode()))
    chosen, seen = {}, set()
    for task in tasks:
        marks = {("fixture", task[0].name), ("kind", task[1].kind), ("both", task[0].layout, task[1].kind)}
        if not marks <= seen:
            seen |= marks
            chosen[id(task)] = task
    for task in tasks:
        if len(chosen) < n:
            chosen.setdefault(id(task), task)
    return list(chosen.values())


def all_changes(given, fixtures, runner):
    """(fixture, change) for all fixtures that can be merged."""
    return [(fixture, change) for fixture in fixtures if fixture.name in runner.expected and given.only in fixture.name
            for way in given.ways for change in WAYS[way](fixture, fixtures) if given.kind in change.kind]


def try_baselines(given, fixtures, runner, pool):
    """Says which unchanged checkpoints are refused, also with --strict; whether any is without being known to be."""
    wanted = [fixture for fixture in fixtures if given.only in fixture.name]
    refused = {}
    for fixture, done in zip(wanted, pool.map(runner.baseline, wanted)):
        if done.code != 0:
            refused[fixture.name] = done.code
            print(f"REFUSED UNCHANGED {fixture.name} | {done.code} | {done.stderr.strip()[:300]}", flush=True)
        elif fixture.expected is not None and done.model.tensors != fixture.expected:
            refused[fixture.name] = 0
            print(f"OTHER THAN EXPECTED {fixture.name} | {merge.difference(done.model, merge.Model(fixture.expected, done.model.others))[1]}", flush=True)
    if given.strict:
        for fixture, done in zip(wanted, pool.map(lambda fixture: runner.baseline(fixture, ("--strict",)), wanted)):
            if done.code != 0 and fixture.name not in refused:
                print(f"STRICT {fixture.name} | {done.code} | {done.stderr.strip()[:600]}", flush=True)
    return refused


def try_all(given, work, pool):
    """[(fixture, change, verdict)]"""
    program = os.path.join(os.path.realpath(given.bin), "shardweld")
    runner = Runner(program, work)
    fixtures = fixtures_module.find(given.data, given.cases, work)
    if not os.path.exists(os.path.join(os.path.dirname(program), "shardweld_hdf5.so")):
        fixtures = [fixture for fixture in fixtures if fixture.layout != "hdf5"]
    refused = try_baselines(given, fixtures, runner, pool)
    tasks = all_changes(given, fixtures, runner)
    if given.sample:
        tasks = spread(tasks, given.sample)
    print(f"{len(runner.expected)} fixtures, {len(tasks)} changes", flush=True)
    if not os.path.exists(runner.library):
        print("SKIPPED in part: built without the fault library")
        tasks = [task for task in tasks if not task[1].meanwhile]
    results = []
    for (fixture, change), came in zip(tasks, pool.map(lambda one: runner.try_one(*one[1], one[0]), enumerate(tasks))):
        results.append((fixture, change, came))
        if came.outcome == "failed":
            print(f"FAILED {fixture.name} | {change.kind} | {change.what} | {came.code} | {came.detail}", flush=True)
    return refused, results


def summarise(results):
    """{kind: {outcome: n}}, printed too."""
    kinds = defaultdict(Counter)
    for _, change, came in results:
        kinds[change.kind][came.outcome] += 1
    for kind, counts in sorted(kinds.items()):
        print(f"{kind:44} " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())))
    return {kind: dict(counts) for kind, counts in kinds.items()}


def record_of(given, results):
    tool = subprocess.run([os.path.join(given.bin, "shardweld"), "--version"], capture_output=True, text=True, check=True).stdout.split()
    layouts = defaultdict(Counter)
    for fixture, _, came in results:
        layouts[fixture.layout][came.outcome] += 1
    used = Counter(entry for *_, came in results for entry in came.entries)
    fixtures = defaultdict(set)
    for fixture, *_ in results:
        fixtures[fixture.layout].add(fixture.name)
    return {"schema": page.SCHEMA, "date": datetime.date.today().isoformat(), "tool": f"{tool[1]} {tool[2]}", "kinds": summarise(results),
            "layouts": {name: dict(counts, fixtures=len(fixtures[name])) for name, counts in layouts.items()}, "listed": dict(used)}


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/metamorphic.sh", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"), help="where the program is (build/bin)")
    parser.add_argument("--data", default=os.path.join(ROOT, "tests/data"), help="where the fixtures are (tests/data)")
    parser.add_argument("--cases", action="append", default=[], help="a directory of more checkpoints, CASE/source and CASE/hf; repeatable")
    parser.add_argument("--only", default="", help="fixtures with this in their names")
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS), help=f"LIST (default all: {','.join(WAYS)})")
    parser.add_argument("--kind", default="", help="kinds of changes with this in their names")
    parser.add_argument("--sample", type=int, default=0, help="about so many changes, of every fixture and kind; nothing is recorded")
    parser.add_argument("--strict", action="store_true", help="say too which unchanged checkpoints --strict refuses")
    parser.add_argument("--list", action="store_true", help="print every change and what came of it")
    parser.add_argument("--dir", default="/dev/shm" if os.path.isdir("/dev/shm") else None, help="where to work (/dev/shm)")
    parser.add_argument("--jobs", type=int, default=2, help="merges at a time (2)")
    parser.add_argument("--render", action="store_true", help="only render the pages")
    parser.add_argument("--check", action="store_true", help="only say whether the pages are what the records make of them")
    return parser.parse_args()


def main():
    given = arguments()
    if given.check or given.render:
        return 0 if page.update(ROOT, given.check) else 1
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardweld-metamorphic.", dir=given.dir) as work, ThreadPoolExecutor(given.jobs) as pool:
        refused, results = try_all(given, work, pool)
    record = record_of(given, results)
    if given.list:
        for fixture, change, came in results:
            print(f"{came.outcome.upper()} {fixture.name} | {change.kind} | {change.what} | {came.code} | {came.detail}")
    is_whole = not (given.sample or given.only or given.kind or given.cases or given.ways != list(WAYS))
    unused = sorted({entry["id"] for entry in verdict.load()} - set(record["listed"])) if is_whole else []
    if is_whole:
        page.put(ROOT, record)
    n_failed = sum(came.outcome == "failed" for *_, came in results)
    print(f"{len(results)} changes, {n_failed} failed, {time.monotonic() - begin:.0f} s" + (f"; never needed on the list: {', '.join(unused)}" if unused else ""))
    # Of tests/data every checkpoint can be merged.
    wrong = [name for name in refused if ":" not in name]
    return 1 if n_failed or unused or wrong else 0


if __name__ == "__main__":
    sys.exit(main())

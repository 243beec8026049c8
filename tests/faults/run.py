"""Merges under faults, killed ranks and bad inputs; keeps the figures and renders the page. Called by scripts/reliability.sh and ctest; --help says more."""
import argparse
import datetime
import glob
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from xml.etree import ElementTree

import bad_inputs
import kills
import matrix
import reliability_page
import scenarios
import signals
import verdict
import watched
from program import Failed, Program
from scenario import Stage

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
DATA = os.path.join(ROOT, "tests/data")
_MUTATED = ("megatron/llama-tp4-legacy-bf16", "megatron/qwen2-tp2-pp2-torchdist-bf16", "megatron/qwen2-tied-tp2-zarr", "torch/fsdp2_w4_bf16_qwen2_tied",
            "torch/fsdp1_w2_fp32_llama", "torch/dcp_w2_bf16_qwen2", "torch/dcp_hf_w2_bf16_qwen2", "torch/fsdp2_lora_w2_fp32_qwen2")
ABOUT = """Makes the real program meet faults, keeps what came of them in docs/measurements/reliability.json and renders docs/measurements/reliability.md from it.

kinds:
  faults      every system call on input, output and report, in every phase, on every rank (tests/faults/matrix.py), by a library loaded before libc
  signals     signals while the model is published
  watched     ranks killed while a reader looks at the target again and again
  kills       ranks killed with SIGKILL at chosen calls, then --resume with other ranks and the other strategy
  bad_inputs  mutations of checkpoints of tests/data; --bad DIR: every DIR/CASE/source too
  sanitizers  what scripts/test-sanitizers.sh has found, from its build directories: --sanitized NAME=BUILD_DIR

A kind takes the place of what is known of it, of `faults` each scenario. Exit code 1 with the first wrong outcome (--keep_going: all of them)."""


def try_faults(runner, listed, keep_going=False):
    """What is recorded; Failed with the first wrong outcome, or with all of them."""
    records, failures = [], []
    for scenario, effort in listed:
        stage = Stage(runner, DATA, scenario)
        seen = stage.dry_run().seen
        tried, n_faults = Counter(), 0
        for fault in matrix.faults_of(stage, seen, effort):
            outcome = stage.merge(fault.text())
            if fault.action in verdict.CHANGES:
                stage.changes_input()
            try:
                came = verdict.judge(stage, fault, outcome)
            except Failed as failure:
                if not keep_going:
                    raise
                failures.append(failure)
                print(failure, flush=True)
                continue
            tried[fault.phase, fault.side, fault.call, fault.error or fault.action, came] += 1
            n_faults += 1
        print(f"{scenario.name}: {n_faults} faults as they should be, {len(failures)} wrong so far", flush=True)
        records.append({"name": scenario.name, "ranks": scenario.ranks, "effort": effort, "calls": sum(sum(counts.values()) for counts in seen), "faults": n_faults,
                        "tried": [[*key, n] for key, n in sorted(tried.items())]})
    if failures:
        raise Failed(f"{len(failures)} wrong outcomes")
    return {"scenarios": records}


def try_kills(runner, given):
    killer = kills.Killer(runner, os.path.join(given.bin, "make_checkpoint"), given.gb)
    done = []
    for kill in kills.points(given.kills):
        done.append(killer.try_one(kill))
        print(f"kill {len(done)} of {given.kills}: {done[-1]}", flush=True)
    return {"gb": given.gb, "kills": done}


def try_bad_inputs(runner, given):
    sets = [{"name": f"{given.mutations} mutations each of {len(_MUTATED)} checkpoints",
             "codes": bad_inputs.try_mutations(runner, [os.path.join(DATA, name) for name in _MUTATED], given.mutations)}]
    if given.bad:
        sets.append({"name": "checkpoints made to be refused, or to look bad and be good", "codes": bad_inputs.try_cases(runner, given.bad)})
    for one in sets:
        one["codes"] = {str(code): n for code, n in one["codes"].items()}
        print(one, flush=True)
    return {"sets": sets}


def read_sanitized(given):
    """What scripts/test-sanitizers.sh left of its last runs; a test that was run again counts once."""
    runs = []
    for name, _, build in (text.partition("=") for text in given.sanitized):
        outcomes = {}
        for path in sorted(glob.glob(os.path.join(build, "results-*.xml")), key=os.path.getmtime):
            outcomes |= {case.get("name"): case.get("status") for case in ElementTree.parse(path).iter("testcase")}
        kinds = Counter(test.split("_")[0] for test, status in outcomes.items() if status == "run")
        failed = [test for test, status in outcomes.items() if status == "fail"]
        if failed or not kinds:
            raise Failed(f"{name}: {', '.join(failed) or 'no tests were run'}")
        runs.append({"name": name, "tests": kinds.total(), "failed": 0, "which": ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))})
    return {"runs": runs}


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/reliability.sh", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = {"type": lambda text: text.split(",")}
    parser.add_argument("--kind", **listed, default=["faults", "signals", "watched", "kills", "bad_inputs"],
                        help="LIST (default faults,signals,watched,kills,bad_inputs)")
    parser.add_argument("--quick", action="store_true", help="a part of each, figures thrown away: what the tests run")
    parser.add_argument("--only", default="", help="faults: scenarios with this in their names")
    parser.add_argument("--keep_going", action="store_true", help="faults: tell all wrong outcomes")
    parser.add_argument("--kills", type=int, default=54, help="how many (54)")
    parser.add_argument("--gb", type=float, default=0.2, help="kills: size of the checkpoints (0.2)")
    parser.add_argument("--mutations", type=int, default=250, help="of each checkpoint (250)")
    parser.add_argument("--bad", help="directory of bad checkpoints")
    parser.add_argument("--sanitized", action="append", default=[], help="NAME=BUILD_DIR, repeatable")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where to work")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"), help="where the programs are (build/bin)")
    parser.add_argument("--json", default=os.path.join(ROOT, "docs/measurements/reliability.json"), help="where records are kept")
    parser.add_argument("--page", default=os.path.join(ROOT, "docs/measurements/reliability.md"), help="what is rendered from them")
    parser.add_argument("--render", action="store_true", help="only render the page")
    parser.add_argument("--check", action="store_true", help="only say whether the page is what the records make of it")
    return parser.parse_args()


def try_all(given):
    tool = subprocess.run([os.path.join(given.bin, "shardweld"), "--version"], capture_output=True, text=True, check=True).stdout.split()
    listed = [one for one in (scenarios.QUICK if given.quick else scenarios.FULL) if given.only in one[0].name]
    if not os.path.exists(os.path.join(given.bin, "shardweld_hdf5.so")):
        print("SKIPPED in part: built without HDF5")
        listed = [one for one in listed if "hdf5" not in one[0].options]
    with tempfile.TemporaryDirectory(prefix="shardweld-faults.", dir=given.dir) as work:
        runner = Program(os.path.realpath(given.bin), os.path.realpath(work))
        ways = {"faults": lambda: try_faults(runner, listed, given.keep_going), "kills": lambda: try_kills(runner, given),
                "signals": lambda: {"signals": signals.try_signals(runner, DATA, given.quick)},
                "watched": lambda: {"merges": watched.try_watched(runner, DATA, given.quick)},
                "bad_inputs": lambda: try_bad_inputs(runner, given), "sanitizers": lambda: read_sanitized(given)}
        for kind in given.kind:
            begin = time.monotonic()
            # What fails ends at once; ranks that are stopped need mpirun's second before it kills them.
            os.environ["OMPI_MCA_odls_base_sigkill_timeout"] = "0" if kind in ("faults", "bad_inputs") else "1"
            record = ways[kind]()
            print(f"{kind}: {time.monotonic() - begin:.0f} s", flush=True)
            if not given.quick:
                reliability_page.put(given.json, kind, record, {"date": datetime.date.today().isoformat(), "tool": f"{tool[1]} {tool[2]}"})


def main():
    given = arguments()
    if given.quick:
        given.kills, given.mutations, given.gb = min(given.kills, 4), min(given.mutations, 10), min(given.gb, 0.05)
    if given.check:
        if reliability_page.update(given.page, given.json, check=True):
            return 0
        print(f"{given.page} is not what {given.json} renders to: edit prose outside of the markers only, and run scripts/reliability.sh --render")
        return 1
    if not given.render:
        try_all(given)
    if not given.quick:
        reliability_page.update(given.page, given.json)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        print(f"reliability: {failure}", file=sys.stderr)
        sys.exit(1)

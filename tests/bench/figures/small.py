"""Cases about what a merge needs beside its bytes: the time of a launch and the memory of ever larger models."""
import os
import shutil

import merging
import pairs
import process
import synthetic
from place import Model, mpirun

TINY_GB = 0.001
MANY_FILES_GB = 500  # more is saved by a thousand ranks
LIMIT = 512 << 20  # bytes of RLIMIT_DATA, per process: heap and private mappings, libraries' own included


def launch_key(ranks):
    return {"kind": "launch", "input": "legacy", "dtype": "bf16", "ranks": ranks, "strategy": "auto", "cache": "warm", "fsync": "yes", "gb": TINY_GB}


def launch_record(place, ranks, n_pairs):
    """A merge of next to nothing: launch, planning and publishing."""
    model = Model("legacy", "bf16", TINY_GB)
    checkpoint = place.checkpoint(model)
    target = os.path.join(place.work, "merged")
    command = merging.merge_command(place, model, checkpoint, target, "auto")

    def run(sampled):
        taken = process.run([*mpirun(ranks), *command], place.log, sampled)
        place.take_report()
        return merging.figures(taken)
    side = pairs.Side("merge", run, (target,), lambda: place.check_values(target, model))
    pairs.measure([side], n_pairs, place.inputs(checkpoint), "warm")
    return dict(launch_key(ranks), pairs=n_pairs, peak_bytes=side.peak_bytes, samples={"merge": side.samples})


def memory_key(how, gb, layout):
    return {"kind": f"memory-{how}-{gb:g}", "input": layout, "dtype": "bf16", "ranks": 2, "strategy": "direct", "cache": "any", "fsync": "no", "gb": gb}


def memory_record(place, how, gb, layout):
    """Peak memory with a checkpoint of holes. `merge` writes its output and takes as much disk; `test` runs the same loop without writing, beside a
    reference of holes. A second run has to pass under RLIMIT_DATA."""
    ranks = {"tp": 8, "pp": 128} if gb > MANY_FILES_GB else {}
    model, key = Model(layout, "bf16", gb, sparse=True, **ranks), memory_key(how, gb, layout)
    checkpoint = place.checkpoint(model)
    target = os.path.join(place.work, "merged")
    command = merging.merge_command(place, model, checkpoint, target, "direct")
    if how == "test":
        synthetic.write_holes(target, synthetic.planned_tensors(place, model, checkpoint), f"{checkpoint}/hf/config.json")
        command[1], command[command.index("--target_dir")] = "test", "--test_hf_dir"
    else:
        command += ["--no_fsync", "--overwrite"]
    try:
        taken = process.run([*mpirun(key["ranks"]), *command], place.log, True)
        process.run([*mpirun(key["ranks"]), "prlimit", f"--data={LIMIT}", *command], place.log)
    finally:
        shutil.rmtree(target, ignore_errors=True)
        place.forget(model)
    said = place.take_report()
    return dict(key, pairs=1, peak_bytes=taken.peak_bytes, own_peak_bytes=sum(rank["peak_bytes"] for rank in said["ranks"]),
                metadata_bytes=said["plan"]["metadata_bytes"], limit_bytes=LIMIT, wall_s=taken.wall_s, cpu_s=taken.cpu_s, samples={})

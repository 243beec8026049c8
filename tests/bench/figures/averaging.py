"""An average of checkpoints of several formats beside plain parallel reading of the same files. Knows their command lines and
reports."""
import os

import merging
import page_cache
import pairs
import plain_io
import process
from place import Model, mpirun

LAYOUTS = ("legacy", "fsdp", "torch_dist", "legacy")


def key(gb, ranks, cache):
    """`gb`: of each checkpoint."""
    return {"kind": "average", "input": "mixed", "dtype": "bf16", "ranks": ranks, "strategy": "direct", "cache": cache, "fsync": "no", "gb": gb}


def _make(place, gb, parent):
    os.makedirs(parent)
    for seed, layout in enumerate(LAYOUTS):
        model = Model(layout, "bf16", gb, seed=seed)
        process.run([place.program("make_checkpoint"), "--format", layout, *model.made_with(), os.path.join(parent, str(seed))], place.log)


def record(place, gb, ranks, cache, n_pairs):
    """The merge's speed counts the bytes that it reads, from the first file made to the model published."""
    parent = place.made(f"average-{len(LAYOUTS)}x{gb:g}gb", lambda path: _make(place, gb, path))
    inputs = page_cache.files_below(parent)
    merged = os.path.join(place.work, "merged")
    checkpoints = [os.path.join(parent, str(seed), "source") for seed in range(len(LAYOUTS))]
    merge = [place.program("shardweld"), "merge", "--average", *checkpoints, "--target_dir", merged, "--hf_config", os.path.join(parent, "0/hf"),
             "--strategy", "direct", "--no_fsync", "--report", place.report, "-q"]

    def run_merge(sampled):
        taken = process.run([*mpirun(ranks), *merge], place.log, sampled)
        said = place.take_report()
        names = [phase["name"] for phase in said["phases"]]
        moving = said["phases"][names.index("create"):names.index("publish") + 1]
        read_gb = sum(rank["bytes_read"] for rank in said["ranks"]) / 1e9
        return merging.figures(taken, {"gbs": read_gb / sum(phase["wall_s"] for phase in moving)})

    def run_roof(_):
        return plain_io.measure(place.work, ranks, inputs, ("read",), cold=cache == "cold")

    sides = [pairs.Side("roof", run_roof), pairs.Side("merge", run_merge, (merged,))]
    pairs.measure(sides, n_pairs, inputs, cache)
    return dict(key(gb, ranks, cache), pairs=n_pairs, input_bytes=sum(map(os.path.getsize, inputs)), peak_bytes=sides[1].peak_bytes,
                samples={side.name: side.samples for side in sides})

"""Cases beside other mergers, each in its own Python (peer_program.py). Knows which input each peer reads; nothing of how it works."""
import json
import os
import shutil

import merging
import page_cache
import pairs
import process
import synthetic
from place import Model, mpirun

PEERS = {"verl_fsdp": "fsdp", "verl_megatron": "torch_dist", "torch_consolidate": "hf", "zero_to_fp32": "zero3"}
MAKERS = {"verl_fsdp": "make_fsdp"}  # of peer_program.py: what only the framework can write
RANKS = 2
_PROGRAM = os.path.join(os.path.dirname(os.path.realpath(__file__)), "peer_program.py")


def key(name, gb):
    dtype = "fp32" if name == "zero_to_fp32" else "bf16"
    return {"kind": f"peer-{name}", "input": PEERS[name], "dtype": dtype, "ranks": RANKS, "strategy": "auto", "cache": "warm", "fsync": "no", "gb": gb}


class Beside:
    """The sides of one peer's pairs: it, and a merge of the same input with 2 ranks, warm, neither waiting for the disk. The first results are
    compared."""

    def __init__(self, place, name, gb, python):
        self.place, self.name, self.python = place, name, python
        self.target, self.kept = os.path.join(place.work, "merged"), os.path.join(place.work, "kept")
        self.version = ""
        self.source, self.hf = _input(place, name, gb, python)

    def sides(self):
        peer = pairs.Side("peer", self._run_peer, (self.target,), lambda: os.rename(self.target, self.kept))
        return [peer, pairs.Side("merge", self._run_merge, (self.target,), self._compare)]

    def _run_peer(self, sampled):
        taken = process.run([self.python, _PROGRAM, self.name, self.source, self.hf, self.target], self.place.log, sampled)
        said = json.loads(process.tail(self.place.log).strip().splitlines()[-1])
        self.version = said["peer"]
        return merging.figures(taken, {"work_s": said["work_s"]})

    def _run_merge(self, sampled):
        command = [*mpirun(RANKS), self.place.program("shardweld"), "merge", "--local_dir", self.source, "--hf_config", self.hf, "--dtype",
                   key(self.name, 0)["dtype"], "--target_dir", self.target, "--no_fsync", "-q"]
        return merging.figures(process.run(command, self.place.log, sampled))

    def _compare(self):
        process.run([self.place.program("shardweld"), "diff", self.target, self.kept, "--atol", "0", "--rtol", "0", "-q"], self.place.log)
        shutil.rmtree(self.kept)


def _input(place, name, gb, python):
    """Directories of a peer's checkpoint and its config."""
    if name in MAKERS:
        made = place.made(f"{MAKERS[name]}-{gb:g}gb", lambda path: process.run([python, _PROGRAM, MAKERS[name], path, str(gb)], place.log))
        return f"{made}/source", f"{made}/hf"
    model = Model({"verl_megatron": "torch_dist", "zero_to_fp32": "zero3"}.get(name, "legacy"), "bf16", gb)
    checkpoint = place.checkpoint(model)
    if model.layout != "legacy":
        return f"{checkpoint}/source", f"{checkpoint}/hf"
    tensors = synthetic.planned_tensors(place, model, checkpoint)
    return place.made(f"hf-sharded-{gb:g}gb", lambda path: synthetic.write_shards(path, tensors)), f"{checkpoint}/hf"


def record(place, name, gb, n_pairs, python):
    beside = Beside(place, name, gb, python)
    sides = beside.sides()
    inputs = page_cache.files_below(beside.source)
    pairs.measure(sides, n_pairs, inputs, "warm")
    return dict(key(name, gb), input_bytes=sum(map(os.path.getsize, inputs)), pairs=n_pairs, peer=beside.version, peer_peak_bytes=sides[0].peak_bytes,
                peak_bytes=sides[1].peak_bytes, samples={side.name: side.samples for side in sides})

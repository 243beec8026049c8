"""Merges that quantise beside the bf16 merge of the same checkpoint, and beside the functions of transformers and compressed-tensors over the merged
model (peer_program.py). Knows their command lines; nothing of encodings."""
import os
import shutil

import merging
import page_cache
import pairs
import process
from place import RANKS, Model, mpirun

ENCODINGS = ("fp8-block", "w8a16")
_PROGRAM = os.path.join(os.path.dirname(os.path.realpath(__file__)), "peer_program.py")


def keys(gb, fsync):
    return [{"kind": f"quantise-{encoding}", "input": "fsdp", "dtype": "bf16", "ranks": RANKS, "strategy": "direct", "cache": "warm", "fsync": fsync, "gb": gb}
            for encoding in ENCODINGS]


class Quantising:
    """All sides of one interleaved run: the bf16 merge, a merge for each encoding and, where nobody waits for the disk, a peer for each."""

    def __init__(self, place, gb, fsync, python):
        self.place, self.fsync, self.python = place, fsync, python
        self.model = Model("fsdp", "bf16", gb)
        self.checkpoint = place.checkpoint(self.model)
        self.target, self.kept = os.path.join(place.work, "merged"), os.path.join(place.work, "kept")
        self.inputs, self.versions = place.inputs(self.checkpoint), {}
        if fsync == "no":
            self.merged = place.merged(self.model)
            self.inputs = self.inputs + page_cache.files_below(self.merged)

    def sides(self):
        made = [pairs.Side("bf16", lambda sampled: self._run([], sampled), (self.target,))]
        for name in ENCODINGS:
            if self.fsync == "no":
                made.append(pairs.Side(f"peer-{name}", lambda sampled, of=name: self._run_peer(of, sampled), (self.target,), self._keep))
            made.append(pairs.Side(name, lambda sampled, of=name: self._run(["--quantize", of], sampled), (self.target,), lambda of=name: self._compare(of)))
        return made

    def _merge(self, options, target, sampled=False):
        fsync = ["--no_fsync"] if self.fsync == "no" else []
        return process.run([*mpirun(RANKS), self.place.program("shardweld"), "merge", *self.model.merged_with(), "--local_dir", f"{self.checkpoint}/source",
                            "--hf_config", f"{self.checkpoint}/hf", "--target_dir", target, "--strategy", "direct", "-q", *fsync, *options], self.place.log, sampled)

    def _run(self, options, sampled):
        return merging.figures(self._merge(options, self.target, sampled))

    def _run_peer(self, encoding, sampled):
        taken = process.run([self.python, _PROGRAM, f"quantise_{encoding}", self.merged, f"{self.checkpoint}/hf", self.target], self.place.log, sampled)
        said = process.said_last(self.place.log)
        self.versions[encoding] = said["peer"]
        return merging.figures(taken, {"work_s": said["work_s"]})

    def _keep(self):
        os.rename(self.target, self.kept)

    def _compare(self, encoding):
        """FP8 has all bytes of the peer's; integers have not: on a CPU the library rounds quotients to bf16 first."""
        if self.fsync == "no":
            if encoding == "fp8-block":
                process.run([self.place.program("shardweld"), "diff", self.target, self.kept, "--atol", "0", "--rtol", "0", "-q"], self.place.log)
            shutil.rmtree(self.kept)


def measure(place, gb, fsync, n_pairs, python):
    """A record for each encoding; the samples of the bf16 merge are in all of them."""
    run = Quantising(place, gb, fsync, python)
    sides = {side.name: side for side in run.sides()}
    pairs.measure(list(sides.values()), n_pairs, run.inputs, "warm")
    for encoding, key in zip(ENCODINGS, keys(gb, fsync)):
        record = dict(key, pairs=n_pairs, input_bytes=sum(map(os.path.getsize, place.inputs(run.checkpoint))), peak_bytes=sides[encoding].peak_bytes,
                      bf16_peak_bytes=sides["bf16"].peak_bytes, samples={"bf16": sides["bf16"].samples, "merge": sides[encoding].samples})
        if encoding in run.versions:
            peer = sides[f"peer-{encoding}"]
            record.update(peer=run.versions[encoding], peer_peak_bytes=peer.peak_bytes)
            record["samples"]["peer"] = peer.samples
        yield record

"""All tensors of a checkpoint read in Python through shardweld.safe_open, beside safetensors over the merged model and torch's own reading of the
checkpoint (reading_program.py). Knows their command lines and what they print."""
import os

import merging
import page_cache
import pairs
import process
from place import Model

TORCH = {"fsdp": "torch_load", "torch_dist": "torch_dcp"}
_PROGRAM = os.path.join(os.path.dirname(os.path.realpath(__file__)), "reading_program.py")


def key(layout, gb, cache):
    return {"kind": "read", "input": layout, "dtype": "bf16", "ranks": 1, "strategy": "direct", "cache": cache, "fsync": "no", "gb": gb}


class Reading:
    """The sides of one interleaved run. The module lies beside the programs, as the build puts it."""

    def __init__(self, place, layout, gb, python):
        self.place, self.layout, self.said = place, layout, {}
        model = Model(layout, "bf16", gb)
        self.checkpoint = place.checkpoint(model)
        self.merged = place.merged(model)
        module = os.path.realpath(os.path.join(place.program(""), "../python"))
        self.command = ["env", f"PYTHONPATH={module}", python, _PROGRAM]

    def sides(self):
        ways = {"safe_open": self.checkpoint, "safetensors": self.merged, TORCH[self.layout]: self.checkpoint}
        return [pairs.Side(name, lambda sampled, way=name, of=path: self._run(way, of, sampled)) for name, path in ways.items()]

    def inputs(self):
        return self.place.inputs(self.checkpoint) + page_cache.files_below(self.merged)

    def _run(self, way, path, sampled):
        taken = process.run([*self.command, way, path], self.place.log, sampled)
        said = self.said[way] = process.said_last(self.place.log)
        if abs(said["bytes"] / self.said["safe_open"]["bytes"] - 1) > 0.01:  # torch_dist's vocabulary is padded
            raise process.Failed(f"{way} read {said['bytes']} bytes, safe_open {self.said['safe_open']['bytes']}")
        return merging.figures(taken, {"work_s": said["work_s"], "work_cpu_s": said["work_cpu_s"]})


def record(place, layout, gb, cache, n_pairs, python):
    reading = Reading(place, layout, gb, python)
    sides = reading.sides()
    pairs.measure(sides, n_pairs, reading.inputs(), cache)
    return dict(key(layout, gb, cache), pairs=n_pairs, input_bytes=reading.said["safe_open"]["bytes"], peak_bytes=sides[0].peak_bytes,
                peer_peak_bytes={side.name: side.peak_bytes for side in sides[1:]}, resident_bytes={way: said["resident_bytes"] for way, said in reading.said.items()},
                versions={way: said["version"] for way, said in reading.said.items()}, samples={side.name: side.samples for side in sides})

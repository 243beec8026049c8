"""Cases beside other mergers and converters, each in its own Python (peer_program.py). Knows which input each reads, what a merge is told to do the same,
and how the results are compared; nothing of how a peer works."""
import json
import os
import shutil
from dataclasses import dataclass
from typing import Callable

import merging
import page_cache
import pairs
import process
from place import RANKS, Model, mpirun

_HERE = os.path.dirname(os.path.realpath(__file__))


def _saved(layout):
    """A checkpoint that make_checkpoint makes."""

    def find(place, gb, _):
        checkpoint = place.checkpoint(Model(layout, "bf16", gb))
        return f"{checkpoint}/source", f"{checkpoint}/hf"
    return find


def _fsdp(place, gb, python):
    made = place.made(f"make_fsdp-{gb:g}gb", lambda path: _input(place, python, "fsdp", path, f"{gb:g}"))
    return f"{made}/source", f"{made}/hf"


def _model(place, gb, _):
    model = place.merged(Model("legacy", "bf16", gb))
    return model, model


def _two_models(place, gb, _):
    return tuple(place.merged(Model("legacy", "bf16", gb, seed=seed)) for seed in (0, 1))


def _parts(form):
    """What several processes of a framework save of a model."""

    def find(place, gb, python):
        model, config = _model(place, gb, python)[0], f"{place.checkpoint(Model('legacy', 'bf16', gb))}/hf"
        return os.path.join(place.made(f"{form}-{gb:g}gb", lambda path: _input(place, python, form, path, model)), "source"), config
    return find


def _adapter(place, gb, python):
    model, _ = _model(place, gb, python)
    return os.path.join(place.made(f"adapter-{gb:g}gb", lambda path: _input(place, python, "adapter", path, model)), "source"), model


def _input(place, python, *words):
    process.run([python, os.path.join(_HERE, "input_program.py"), *words], place.log)


def _merge(source, hf):
    return ["--local_dir", source, "--hf_config", hf]


@dataclass(frozen=True)
class Peer:
    input: str                       # as records name it
    find: Callable                   # of (place, gb, python): the directories of what is read, and of its config or base or second model
    options: Callable = _merge       # of a merge, of these directories
    dtype: str = "bf16"
    gb: float = 2
    result: str = "model"            # what the peer writes: a model, or a checkpoint that is merged to be compared, or a file of GGUF
    is_equal: bool = True            # to the bit; else the elements that differ are counted


PEERS = {
    "verl_fsdp": Peer("fsdp", _fsdp),
    "verl_megatron": Peer("torch_dist", _saved("torch_dist")),
    "torch_consolidate": Peer("hf", _parts("shards")),
    "zero_to_fp32": Peer("zero3", _saved("zero3"), dtype="fp32"),
    "mergekit": Peer("two hf", _two_models, lambda first, second: ["--average", first, second], gb=4),
    "transformers_consolidate": Peer("hf", _parts("shards")),
    "dcp_to_torch": Peer("dcp", _parts("dcp")),
    "peft": Peer("lora", _adapter, lambda adapter, base: ["--local_dir", adapter, "--base", base, "--lora", "fold"], is_equal=False),
    "llama_cpp": Peer("hf", _model, lambda model, _: ["--local_dir", model, "--quantize", "gguf:q8_0"], result="gguf"),
    "megatron_load_save": Peer("torch_dist", _saved("torch_dist"), result="checkpoint"),
}


def key(name, gb):
    peer = PEERS[name]
    return {"kind": f"peer-{name}", "input": peer.input, "dtype": peer.dtype, "ranks": RANKS, "strategy": "auto", "cache": "warm", "fsync": "no", "gb": gb}


class Beside:
    """The sides of one peer's pairs: it, and a merge of the same input with 2 ranks, warm, neither waiting for the disk. The first results are
    compared."""

    def __init__(self, place, name, gb, python):
        self.place, self.name, self.python, self.peer = place, name, python, PEERS[name]
        self.target, self.kept = os.path.join(place.work, "merged"), os.path.join(place.work, "kept")
        self.version, self.difference = "", {}
        self.source, self.hf = self.peer.find(place, gb, python)
        self.inputs = sorted({*page_cache.files_below(self.source), *page_cache.files_below(self.hf)})

    def sides(self):
        peer = pairs.Side("peer", self._run_peer, (self.target,), lambda: os.rename(self.target, self.kept))
        return [peer, pairs.Side("merge", self._run_merge, (self.target,), self._compare)]

    def _run_peer(self, sampled):
        taken = process.run([self.python, os.path.join(_HERE, "peer_program.py"), self.name, self.source, self.hf, self.target], self.place.log, sampled)
        said = process.said_last(self.place.log)
        self.version = said["peer"]
        return merging.figures(taken, {"work_s": said["work_s"]})

    def _run_merge(self, sampled):
        return merging.figures(process.run(self._command(self.peer.options(self.source, self.hf), self.target), self.place.log, sampled))

    def _command(self, options, target):
        return [*mpirun(RANKS), self.place.program("shardweld"), "merge", *options, "--target_dir", target, "--dtype", self.peer.dtype, "--no_fsync", "-q"]

    def _compare(self):
        """Of what the peer wrote and what the merge did: tensors and elements with other bits."""
        if self.peer.result == "gguf":
            self.difference = self._compare_files()
        else:
            self.difference = self._compare_models()
        if self.difference["different"] and self.peer.is_equal:
            raise process.Failed(f"{self.name}: the merge and {self.version} differ: {self.difference}")
        shutil.rmtree(self.kept)

    def _compare_files(self):
        files = [os.path.join(folder, name) for folder in (self.target, self.kept) for name in os.listdir(folder) if name.endswith(".gguf")]
        process.run([self.python, os.path.join(_HERE, "peer_program.py"), "same_gguf", *files], self.place.log)
        return process.said_last(self.place.log)

    def _compare_models(self):
        theirs = self.kept
        if self.peer.result == "checkpoint":
            theirs = os.path.join(self.kept, "merged")
            process.run(self._command(_merge(self.kept, self.hf), theirs), self.place.log)
        process.run([self.place.program("shardweld"), "diff", self.target, theirs, "--atol", "0", "--rtol", "0", "--strict_dtype", "--json", "-q"], self.place.log,
                    codes=(0, 13))
        with open(self.place.log, encoding="utf-8") as file:
            tensors = json.load(file)["tensors"]
        different = [one for one in tensors if one["result"] != "same_bits"]
        return {"tensors": len(tensors), "different": len(different), "elements": sum(one.get("elements", 0) for one in tensors),
                "different_elements": sum(one.get("different_bits", 0) for one in different)}


def record(place, name, gb, n_pairs, python):
    beside = Beside(place, name, gb, python)
    sides = beside.sides()
    pairs.measure(sides, n_pairs, beside.inputs, "warm")
    return dict(key(name, gb), input_bytes=sum(map(os.path.getsize, beside.inputs)), pairs=n_pairs, peer=beside.version, difference=beside.difference,
                peer_peak_bytes=sides[0].peak_bytes, peak_bytes=sides[1].peak_bytes, samples={side.name: side.samples for side in sides})

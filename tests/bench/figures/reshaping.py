"""Training checkpoints that reshape writes, beside `cp -r` of its input, plain parallel copying of it and the framework's own save
of the same weights or converter of the same states (peer_program.py, states_program.py). Knows their command lines and reports; nothing of what is in
the files."""
import filecmp
import os
import shutil
from dataclasses import dataclass

import merging
import page_cache
import pairs
import plain_io
import process
from place import RANKS, Model, mpirun

_HERE = os.path.dirname(os.path.realpath(__file__))


@dataclass(frozen=True)
class Route:
    source: str      # hf, or a layout that make_checkpoint makes
    to: str          # as --to has it
    peer: str = ""   # of `program`; "": no program of a framework writes this on a CPU
    program: str = "peer_program.py"


ROUTES = {"torch_dist": Route("hf", "torch_dist", "megatron_save"), "legacy": Route("hf", "legacy:tp=8"), "fsdp": Route("legacy", "fsdp:world=8"),
          "dcp": Route("hf", "dcp:world=2", "dcp_save"), "states_torch_dist": Route("torch_dist states", "torch_dist", "dcp_copy", "states_program.py"),
          "states_fsdp": Route("zero3 states", "fsdp:world=8", "ds_to_universal", "states_program.py")}


def key(form, gb):
    return {"kind": f"reshape-{form}", "input": ROUTES[form].source, "dtype": "bf16", "ranks": RANKS, "strategy": "auto", "cache": "warm", "fsync": "no", "gb": gb}


class Reshaping:
    """The sides of one route's interleaved run. What was written first is merged and held against what the generator put into the checkpoint."""

    def __init__(self, place, form, gb, python):
        self.place, self.route, self.python, self.options = place, ROUTES[form], python, []
        self.target, self.copied, self.back = (os.path.join(place.work, name) for name in ("reshaped", "copied", "back"))
        self.version = ""
        self._find(gb)

    def _find(self, gb):
        self.model = Model("legacy", "bf16", gb)
        checkpoint = self.place.checkpoint(self.model)
        self.hf = f"{checkpoint}/hf"
        self.source = self.place.merged(self.model) if self.route.source == "hf" else f"{checkpoint}/source"

    def sides(self):
        made = [pairs.Side("roof", self._run_roof), pairs.Side("copy", self._run_copy, (self.copied,)),
                pairs.Side("merge", self._run_reshape, (self.target,), self._check)]
        return made + ([pairs.Side("peer", self._run_peer, (self.target,), self._check)] if self.route.peer else [])

    def _merge(self, source, target):
        process.run([*mpirun(RANKS), self.place.program("shardweld"), "merge", "--local_dir", source, "--hf_config", self.hf, "--target_dir", target,
                     "--report", "none", "--no_fsync", "-q"], self.place.log)

    def _check(self):
        self._merge(self.target, self.back)
        self.place.check_values(self.back, self.model)
        shutil.rmtree(self.back)

    def _run_roof(self, _):
        return plain_io.copying(self.place.work, RANKS, page_cache.files_below(self.source))

    def _run_copy(self, sampled):
        return merging.figures(process.run(["cp", "-r", self.source, self.copied], self.place.log, sampled))

    def _run_reshape(self, sampled):
        taken = process.run([*mpirun(RANKS), self.place.program("shardweld"), "reshape", "--local_dir", self.source, "--hf_config", self.hf, "--target_dir", self.target,
                             "--to", self.route.to, *self.options, "--no_fsync", "--report", self.place.report, "-q"], self.place.log, sampled)
        return merging.figures(taken, {"gbs": merging.speed_of(self.place.take_report())})

    def _run_peer(self, sampled):
        taken = process.run([self.python, os.path.join(_HERE, self.route.program), self.route.peer, self.source, self.hf, self.target], self.place.log, sampled)
        said = process.said_last(self.place.log)
        self.version = said["peer"]
        return merging.figures(taken, {"work_s": said["work_s"]})


class Carrying(Reshaping):
    """The same with an optimizer's states, of a save of DeepSpeed's. What was written first is brought into the neutral form and has its bytes."""

    def _find(self, gb):
        self.options = ["--state", "all"]
        made = self.place.made(f"zero3-states-{gb:g}gb", lambda path: process.run(
            [self.python, os.path.join(_HERE, "states_program.py"), "make_zero3", path, f"{gb:g}"], self.place.log))
        self.hf, zero3 = f"{made}/hf", f"{made}/source"
        self.neutral = self.place.made(f"neutral-states-{gb:g}gb", lambda path: self._carry(zero3, path, "hf"))
        self.source = zero3 if self.route.source.startswith("zero3") else self.place.made(f"torch_dist-states-{gb:g}gb", lambda path: self._carry(zero3, path, self.route.to))

    def _carry(self, source, target, form):
        process.run([*mpirun(RANKS), self.place.program("shardweld"), "reshape", "--local_dir", source, "--hf_config", self.hf, "--target_dir", target, "--to", form,
                     *self.options, "--report", "none", "--no_fsync", "-q"], self.place.log)

    def _check(self):
        self._carry(self.target, self.back, "hf")
        for name in ("param", "exp_avg", "exp_avg_sq"):
            file = f"optimizer/{name}.safetensors"
            if not filecmp.cmp(os.path.join(self.back, file), os.path.join(self.neutral, file), shallow=False):
                raise RuntimeError(f"{file} differs")
        shutil.rmtree(self.back)


def record(place, form, gb, n_pairs, python):
    run = (Carrying if form.startswith("states") else Reshaping)(place, form, gb, python)
    sides = {side.name: side for side in run.sides()}
    inputs = page_cache.files_below(run.source)
    pairs.measure(list(sides.values()), n_pairs, inputs, "warm")
    made = dict(key(form, gb), to=run.route.to, pairs=n_pairs, input_bytes=sum(map(os.path.getsize, inputs)), peak_bytes=sides["merge"].peak_bytes,
                samples={name: side.samples for name, side in sides.items()})
    if run.version:
        made.update(peer=run.version, peer_peak_bytes=sides["peer"].peak_bytes)
    return made

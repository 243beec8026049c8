"""Where a bench works and with which programs; makes checkpoints once and keeps them. Knows make_checkpoint; nothing of pairs."""
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

import page_cache
import process
from process import Failed

PROGRAMS = ("shardweld", "make_checkpoint")
RANKS = 2  # of merges beside others


@dataclass(frozen=True)
class Model:
    """A synthetic checkpoint and what is to be made of it."""
    layout: str         # legacy, torch_dist, fsdp, zero3
    dtype: str          # bf16, or fp32_bf16: fp32 in the files, merged with --dtype bf16
    gb: float           # of tensors in the checkpoint
    tp: int = 4
    pp: int = 2
    sparse: bool = False
    seed: int = 0

    def made_with(self):
        more = [*(["--sparse"] if self.sparse else []), *(["--seed", str(self.seed)] if self.seed else [])]
        return ["--gb", f"{self.gb:g}", "--tp", str(self.tp), "--pp", str(self.pp), "--dtype", self.dtype.partition("_")[0], *more]

    def merged_with(self):
        backend = {"fsdp": "fsdp", "zero3": "deepspeed"}.get(self.layout, "megatron")
        return ["--backend", backend, *(["--dtype", "bf16"] if self.dtype == "fp32_bf16" else [])]

    def name(self):
        return f"{self.layout}-{self.dtype.partition('_')[0]}-{self.gb:g}gb-tp{self.tp}-pp{self.pp}{'-sparse' if self.sparse else ''}{f'-seed{self.seed}' if self.seed else ''}"


class Place:
    """A directory to work in: checkpoints stay in it for the next time, `work` goes at the end."""

    def __init__(self, directory, programs):
        os.makedirs(directory, exist_ok=True)
        self.directory = os.path.realpath(directory)
        self._programs = programs
        for name in PROGRAMS:
            if not os.access(self.program(name), os.X_OK):
                raise Failed(f"{self.program(name)} is missing: build it first (--bin DIR)")
        self.work = tempfile.mkdtemp(prefix="run.", dir=self.directory)
        self.log = os.path.join(self.work, "log")
        self.report = os.path.join(self.work, "report.json")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.work, ignore_errors=True)

    def program(self, name):
        return os.path.join(self._programs, name)

    def take_report(self):
        """What the report of a run says. Its file goes: removing the report of the run before is no part of the next one."""
        with open(self.report, encoding="utf-8") as file:
            said = json.load(file)
        os.remove(self.report)
        return said

    def version(self):
        """Version and git revision of the program under test."""
        words = subprocess.run([self.program("shardweld"), "--version"], capture_output=True, text=True, check=True).stdout.split()
        return {"version": words[1], "git": words[2].strip("()")}

    def checkpoint(self, model):
        """The directory of a checkpoint, made where it is not there yet."""
        make = [self.program("make_checkpoint"), "--format", model.layout, *model.made_with()]
        return self.made(model.name(), lambda path: process.run([*make, path], self.log))

    def merged(self, model):
        """The directory of a model merged from such a checkpoint, made where it is not there yet."""
        checkpoint = self.checkpoint(model)
        merge = [*mpirun(RANKS), self.program("shardweld"), "merge", *model.merged_with(), "--local_dir", f"{checkpoint}/source", "--hf_config", f"{checkpoint}/hf",
                 "--report", "none", "--no_fsync", "-q"]
        return self.made(f"hf-{model.name()}", lambda path: process.run([*merge, "--target_dir", path], self.log))

    def made(self, name, make):
        """A directory that stays for the next time; `make(path)` makes it."""
        path = os.path.join(self.directory, name)
        if not os.path.exists(path):
            partial = os.path.join(self.work, name)
            make(partial)
            for written in page_cache.files_below(partial):  # dirty pages cannot be dropped
                with open(written, "rb") as file:
                    os.fsync(file.fileno())
            os.rename(partial, path)
        return path

    def forget(self, model):
        shutil.rmtree(os.path.join(self.directory, model.name()), ignore_errors=True)

    def check_values(self, merged, model):
        """The merged model has the values that the generator put into the checkpoint; Failed otherwise."""
        process.run([self.program("make_checkpoint"), "--check", merged, *model.made_with(), "--merged_dtype", "bf16"], self.log)

    def inputs(self, checkpoint):
        return page_cache.files_below(os.path.join(checkpoint, "source"))


def mpirun(n_ranks):
    return ["mpirun", "-n", str(n_ranks), "--bind-to", "none"]

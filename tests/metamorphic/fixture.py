"""Checkpoints that are changed: where they are, what belongs to them, how they are staged. Knows directories; nothing of changes."""
import json
import os
import re
import shutil
from dataclasses import dataclass, field
from functools import cached_property

import merge

DATA = ("megatron", "megatron_lora", "megatron_more", "torch", "bytecheckpoint", "colossalai", "deepspeed", "hf", "hdf5")
# Checkpoints that one cannot merge without saying more.
_OPTIONS = {"hf/": ("--backend", "hf"), "hdf5/": ("--backend", "hdf5"), "torch/dcp_ema_safetensors_w2": ("--prefix", "model"),
            "deepspeed/autotp_": ("--dtype", "bf16")}


@dataclass(frozen=True)
class Fixture:
    """One checkpoint and its place; `whole` is the copy that is never changed; changed copies link to its files."""
    name: str
    place: str
    whole: str
    options: tuple = ()
    parallel: dict = field(default_factory=dict, compare=False)

    @cached_property
    def files(self):
        """All files, relative to `whole`, sorted."""
        found = [os.path.relpath(os.path.join(root, name), self.whole) for root, _, names in os.walk(self.whole) for name in names]
        return sorted(found)

    @cached_property
    def layout(self):
        """The kind of its data files: what siblings have in common."""
        for pattern, layout in ((r"\.metadata$", "dcp"), (r"_(model|optim)_states\.pt$", "deepspeed"), (r"mp_rank_", "legacy"), (r"\.zarray$", "zarr"),
                                (r"model_world_size_", "fsdp"), (r"\.h5$", "hdf5"), (r"\.(safetensors|bin)$", "hf")):
            if any(re.search(pattern, name) for name in self.files):
                return layout
        return "other"

    @property
    def config(self):
        """The config.json that is used, relative; None when there is none."""
        found = [name for name in self.files if os.path.basename(name) == "config.json" and "lora_adapter" not in name]
        return found[0] if found else None

    @cached_property
    def expected(self):
        """What the framework makes of it: {place/tensor: (dtype, shape, digest)}; None when there is nothing to compare with."""
        place = os.path.join(self.place, "expected")
        if not os.path.isdir(place):
            return None
        parts = {".": place}
        if os.path.isdir(os.path.join(place, "lora_adapter")):
            parts = {"lora_adapter": os.path.join(place, "lora_adapter")}
            if not re.search("loraonly|/only-", self.name):  # there the base comes from elsewhere
                parts["."] = os.path.join(place, "base")
        return {f"{part}/{name}": value for part, directory in parts.items() for name, value in merge.tensors_of(directory).items()}

    def read(self, name):
        with open(os.path.join(self.whole, name), "rb") as file:
            return file.read()

    def staged(self, place):
        """A copy at `place`. No links: making and removing one changes the change time of all, which another merge takes for a writer."""
        shutil.copytree(self.whole, place, copy_function=shutil.copy2)
        return place

    def arguments(self, place):
        """How a copy is merged."""
        source = os.path.join(place, "source")
        config = os.path.join(place, "hf")
        return ["--local_dir", source if os.path.isdir(source) else place, *(["--hf_config", config] if os.path.isdir(config) else []), *self.options]


def replace(path, data):
    """Puts other bytes where a link to a whole file is, without changing that file."""
    if os.path.lexists(path):
        os.remove(path)
    with open(path, "wb") as file:
        file.write(data)


def _options_of(name):
    return next((options for prefix, options in _OPTIONS.items() if name.startswith(prefix)), ())


def _stage(directory, whole):
    """What a merge reads of a case: `source` and, unless the checkpoint has its own, `hf`; else the directory itself."""
    if not os.path.isdir(os.path.join(directory, "source")):
        shutil.copytree(directory, whole, copy_function=shutil.copyfile)
        return
    shutil.copytree(os.path.join(directory, "source"), os.path.join(whole, "source"), copy_function=shutil.copyfile)
    has_config = any("huggingface" in directories for _, directories, _ in os.walk(os.path.join(whole, "source")))
    if not has_config and os.path.isdir(os.path.join(directory, "hf")):
        shutil.copytree(os.path.join(directory, "hf"), os.path.join(whole, "hf"), copy_function=shutil.copyfile)


def find(data, more, work, groups=DATA):
    """Fixtures of these groups of tests/data and cases (directories with `source`) of the directories `more`, staged below `work`."""
    listed = [(f"{group}/{name}", os.path.join(data, group, name)) for group in groups for name in sorted(os.listdir(os.path.join(data, group)))]
    for directory in more:
        directory = directory.rstrip("/")
        listed += [(f"{os.path.basename(directory)}:{name}", os.path.join(directory, name)) for name in sorted(os.listdir(directory))
                   if os.path.isdir(os.path.join(directory, name, "source"))]
    fixtures = []
    for name, place in listed:
        if not os.path.isdir(place) or name == "hdf5/bad":
            continue
        whole = os.path.join(work, "whole", name.replace("/", "+"))
        _stage(place, whole)
        about = os.path.join(place, "case.json")
        parallel = {}
        if os.path.exists(about):
            with open(about, encoding="utf-8") as file:
                parallel = json.load(file).get("parallel") or {}
        fixture = Fixture(name, place, whole, _options_of(name), parallel)
        if fixture.config is None and os.path.isdir(os.path.join(place, "source")) and ":" not in name:
            continue  # no model of the hub, whose config.json each merge needs
        fixtures.append(fixture)
    return fixtures

"""What is wanted of merges, as lines that records are held against. Knows which cases a line is about; nothing of tables."""
import statistics
from dataclasses import dataclass
from typing import Callable

import records
from arithmetic import median_ratio, median_wall, of_roof


# Of less, launch and planning are most of a merge.
LEAST_GB = 4


@dataclass(frozen=True)
class Bound:
    what: str
    sign: str         # <= or >=
    limit: float
    wanted: dict      # fields that a record must have
    value: Callable   # of (record, all records by key); None when it does not apply

    def values(self, known):
        """(value, record) of all cases that the line is about."""
        about = (record for record in known.values() if all(record[name] == value for name, value in self.wanted.items())
                 and (record["kind"] != "merge" or record["gb"] >= LEAST_GB))
        return [(value, record) for value, record in ((self.value(record, known), record) for record in about) if value is not None]


def _copy_ratio(record, _):
    return median_ratio(record, "merge", "copy")


def _cpu_ratio(record, _):
    return median_ratio(record, "merge", "copy", "cpu_s")


def _roof(record, _):
    return statistics.median(of_roof(record))


def _faster(record, _):
    if not {"merge", "peer"} <= record["samples"].keys():  # one measured alone
        return None
    return median_ratio(record, "peer", "merge", ("work_s", "wall_s"))


def _beside_bf16(record, _):
    return median_ratio(record, "merge", "bf16") if record["gb"] >= LEAST_GB else None


def _beside_safetensors(record, _):
    return median_ratio(record, "safe_open", "safetensors", "work_s") if record["gb"] >= LEAST_GB else None


def _smaller(record, _):
    if not record["peak_bytes"]:
        return None
    return record["peer_peak_bytes"] / record["peak_bytes"]


def _beside_better(record, known):
    """Of medians in the same interleaved run: those share their runs of `cp`."""
    others = (known.get(records.key_of(dict(record, strategy=name))) for name in ("direct", "collective"))
    walls = [median_wall(other) for other in others if other and other["samples"]["copy"] == record["samples"]["copy"]]
    return median_wall(record) / min(walls) if walls else None


_MERGE = {"kind": "merge", "ranks": 2}
_PLAIN, _CAST = dict(_MERGE, dtype="bf16"), dict(_MERGE, dtype="fp32_bf16")
_FSDP, _MEGATRON, _ZERO, _MERGEKIT, _PEFT, _LLAMA_CPP = ({"kind": f"peer-{name}"} for name in ("verl_fsdp", "verl_megatron", "zero_to_fp32", "mergekit", "peft", "llama_cpp"))

BOUNDS = (
    Bound("% of the roof, 2 ranks", ">=", 85, _MERGE, _roof),
    Bound("average of four: % of the roof of reading them, 2 ranks", ">=", 85, {"kind": "average", "ranks": 2}, _roof),
    Bound("merge / `cp -r`, 2 ranks, warm, no fsync", "<=", 0.7, dict(_PLAIN, cache="warm", fsync="no"), _copy_ratio),
    Bound("merge / `cp -r`, 2 ranks, cold, no fsync", "<=", 1.0, dict(_PLAIN, cache="cold", fsync="no"), _copy_ratio),
    Bound("merge / `cp -r`, 2 ranks, fsync", "<=", 0.8, dict(_PLAIN, fsync="yes"), _copy_ratio),
    Bound("merge / `cp -r` of the fp32 files, 2 ranks, to bf16", "<=", 0.7, _CAST, _copy_ratio),
    Bound("CPU seconds / those of `cp`, 2 ranks, direct", "<=", 1.5, dict(_MERGE, strategy="direct"), _cpu_ratio),
    Bound("`auto` / the better strategy", "<=", 1.15, {"kind": "merge", "strategy": "auto"}, _beside_better),
    Bound("times faster than verl's FSDP merger", ">=", 10, _FSDP, _faster),
    Bound("times faster than verl's Megatron merger", ">=", 15, _MEGATRON, _faster),
    Bound("times faster than DeepSpeed's zero_to_fp32", ">=", 10, _ZERO, _faster),
    Bound("times faster than mergekit's average", ">=", 6, _MERGEKIT, _faster),
    Bound("times faster than PEFT's merge_and_unload", ">=", 6, _PEFT, _faster),
    Bound("times faster than llama.cpp's converter to Q8_0", ">=", 8, _LLAMA_CPP, _faster),
    Bound("memory of verl's FSDP merger / ours, all ranks", ">=", 10, _FSDP, _smaller),
    Bound("memory of verl's Megatron merger / ours, all ranks", ">=", 10, _MEGATRON, _smaller),
    Bound("memory of DeepSpeed's zero_to_fp32 / ours, all ranks", ">=", 10, _ZERO, _smaller),
    Bound("memory of mergekit's average / ours, all ranks", ">=", 50, _MERGEKIT, _smaller),
    *(Bound(f"{name} / the bf16 merge of the same run, 2 ranks", "<=", 1.2, {"kind": f"quantise-{name}"}, _beside_bf16) for name in ("fp8-block", "w8a16")),
    Bound("fp8-block: times faster than transformers' Fp8Quantize", ">=", 10, {"kind": "quantise-fp8-block"}, _faster),
    Bound("w8a16: times faster than compressed-tensors' compressor", ">=", 10, {"kind": "quantise-w8a16"}, _faster),
    Bound("safe_open / safetensors over the merged model", "<=", 1, {"kind": "read"}, _beside_safetensors),
    Bound("seconds of a tiny model on 4 ranks, all in", "<=", 1, {"kind": "launch", "ranks": 4}, lambda record, _: median_wall(record)),
)

"""Merges distributed training checkpoints into HuggingFace models, and reads them as such without merging.

    import shardweld

    with shardweld.safe_open("global_step_100/actor") as f:
        head = f.get_tensor("lm_head.weight")
    shardweld.merge("global_step_100/actor", "model", dtype="bf16")

Paths are strings or path-like. Options are those of the command of the same name, with Python's values:
`lora="fold"`, `strict=True`, `max_shard_size="2GB"`. Every fault is a `shardweld.Error`.
"""

from ._core import __version__
from ._calls import Output, check, clean, delta, diff, inspect, merge, plan, recipes, report, reshape, upload, verify, watch
from ._errors import (Corrupt, Differs, Error, IoError, Locked, Mismatch, NoMemory, NoSpace, NotFound, Stopped,
                      StrictWarning, TargetRefused, UnknownName, Unsupported, UsageError)
from ._open import SafeOpen, Slice, load_file, safe_open
from ._results import CheckResult, Comparison, Delta, Examination, Inspection, MergeReport, Plan, Verification, WrittenOutput

__all__ = [
    "CheckResult", "Comparison", "Corrupt", "Delta", "Differs", "Error", "Examination", "Inspection", "IoError",
    "Locked", "MergeReport", "Mismatch", "NoMemory", "NoSpace", "NotFound", "Output", "Plan", "SafeOpen", "Slice", "Stopped",
    "StrictWarning", "TargetRefused", "UnknownName", "Unsupported", "UsageError", "Verification", "WrittenOutput",
    "__version__", "check", "clean", "delta", "diff", "inspect", "load_file", "merge", "plan", "recipes", "report", "reshape",
    "safe_open", "upload", "verify", "watch",
]

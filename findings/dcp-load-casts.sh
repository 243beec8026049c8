#!/usr/bin/env bash
# torch 2.15.0: torch.distributed.checkpoint.load holds the shape of a stored tensor against that of the tensor it loads into, and refuses another; its
# type it does not. It casts, without an error or a warning: fp32 into fp8 as plain values without a scale (300 becomes 288, 465 becomes 448), into
# integers cut off (-2.7 becomes -2, a step of 3.9 becomes 3), into bool (0.001 becomes True), and int64 into bf16 (2^24 + 1 becomes 2^24).
# The guess: that a loader which refuses another shape refuses another type, or says that it changes values.
# Why it matters: a model built for another precision "loads" a checkpoint of full precision, fp8 modules get codes whose scales are missing, and the next
# save writes what is left.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
environment dcp torch==2.15.0 numpy==2.5.5
cat >"$work/casts.py" <<'P'
import sys, warnings
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

stored = {"weight": torch.tensor([1.5, -2.7, 300.0, 1e-3, 465.0]), "ids": torch.tensor([2**24 + 1, -1]), "step": torch.tensor(3.9)}
cases = [
    ("weight", torch.float8_e4m3fn, [1.5, -2.75, 288.0, 0.001953125, 448.0]),
    ("weight", torch.int64, [1.0, -2.0, 300.0, 0.0, 465.0]),
    ("weight", torch.bool, [1.0] * 5),
    ("ids", torch.bfloat16, [16777216.0, -1.0]),
    ("step", torch.int32, 3.0),
]
print("torch", torch.__version__)
place, as_seen = sys.argv[1], True
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that there is one process
    dcp.save(stored, checkpoint_id=place, no_dist=True)
for name, dtype, expected in cases:
    into = {name: torch.zeros(stored[name].shape, dtype=dtype)}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dcp.load(into, checkpoint_id=place, no_dist=True)
    of_types = [str(one.message) for one in said if "dtype" in str(one.message) or "cast" in str(one.message)]
    print(f"{name} ({stored[name].dtype}) into {dtype}: {into[name].float().tolist()}, warnings of it: {len(of_types)}")
    as_seen = as_seen and into[name].float().tolist() == expected and not of_types
try:
    dcp.load({"weight": torch.zeros(4)}, checkpoint_id=place, no_dist=True)
    refused = False
except CheckpointException as error:  # derives from BaseException
    refused = "Size mismatch" in str(error)
print("another shape is refused:", refused)
sys.exit(not (as_seen and refused))
P
"$python" "$work/casts.py" "$work/checkpoint"

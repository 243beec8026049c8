#!/usr/bin/env bash
# safetensors 0.8.0 saves and loads torch 2.15.0's packed FP4 (float4_e2m1fn_x2, two values in a byte), but no slice of it can be read. The file states
# the shape in values (F4, [4, 12]), torch has it in bytes ((4, 6)); `load_file` and `get_tensor` come back with (4, 6) and the same bytes, while every
# `get_slice(...)[...]` raises "shape '[4, 12]' is invalid for input of size 24", `[:]` and whole rows included.
# The guess: that a tensor which loads whole can be read by rows, as tensor-parallel loaders do, and that file and memory state one shape.
# Why it matters: a checkpoint of FP4 weights loads on one device and fails where ranks read their part of it; who compares shapes of a file with those
# of a module must know that the last one counts values.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
environment fp4 torch==2.15.0 safetensors==0.8.0 numpy==2.5.5
cat >"$work/slices.py" <<'P'
import json, sys, safetensors, torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
print("safetensors", safetensors.__version__, "torch", torch.__version__)
path = sys.argv[1]
packed = torch.arange(24, dtype=torch.uint8).view(4, 6)
save_file({"bytes": packed.clone(), "fp4": packed.view(torch.float4_e2m1fn_x2)}, path)
with open(path, "rb") as file:
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
stated = header["fp4"]["dtype"], header["fp4"]["shape"]
loaded = load_file(path)["fp4"]
print("stated:", *stated, " loaded:", loaded.dtype, tuple(loaded.shape))
raised = {}
with safe_open(path, "pt") as file:
    whole = file.get_tensor("fp4")
    for name in ("bytes", "fp4"):
        rows = file.get_slice(name)
        for text, index in (("[:]", slice(None)), ("[0:1]", slice(0, 1)), ("[:, 0:6]", (slice(None), slice(0, 6)))):
            try:
                rows[index]
            except RuntimeError as error:
                raised[name, text] = str(error)
                print(f"get_slice({name!r}){text}: {error}")
same = all(torch.equal(tensor.view(torch.uint8), packed) for tensor in (loaded, whole))
expected = {("fp4", text): "shape '[4, 12]' is invalid for input of size 24" for text in ("[:]", "[0:1]", "[:, 0:6]")}
sys.exit(not (stated == ("F4", [4, 12]) and tuple(loaded.shape) == (4, 6) and same and raised == expected))
P
"$python" "$work/slices.py" "$work/model.safetensors"

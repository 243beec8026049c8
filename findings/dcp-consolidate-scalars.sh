#!/usr/bin/env bash
# torch 2.15.0: what HuggingFaceStorageWriter has saved by ranks, consolidate_safetensors_files joins into files of whole tensors. Tensors of one
# dimension and more come out bit for bit; a tensor without dimensions comes out as 0, whatever it was, without an error or a warning (the shards hold its
# value). Integer and bool tensors, which the writer saves, are refused: TypeError of torch.finfo.
# The guess: that joining shards is a copy of bytes, and the same for each shape and type which the writer takes.
# Why it matters: scales of quantised weights and inputs, temperatures and multipliers of layers are such scalars. The joined model loads, and every product
# with them is 0; the shards are often removed once they are joined.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
environment consolidate torch==2.15.0 numpy==2.5.5 safetensors==0.8.0
cat >"$work/consolidate.py" <<'P'
import pathlib, sys, warnings
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint import HuggingFaceStorageWriter
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files

place = pathlib.Path(sys.argv[1])


def joined(name, tensor):
    """What the shards hold of it, and what the joined file holds; or the error."""
    shards, whole = place / name, place / (name + "-joined")
    whole.mkdir()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dcp.save({name: tensor}, no_dist=True, storage_writer=HuggingFaceStorageWriter(str(shards), save_distributed=True, fqn_to_index_mapping={name: 1}))
        saved = load_file(next(shards.glob("*.safetensors")))[name]
        try:
            consolidate_safetensors_files(str(shards), str(whole), {name: 1})
        except TypeError as error:
            return saved, error
    warned = [one for one in said if "zero" in str(one.message) or "scalar" in str(one.message)]
    return saved, (load_file(next(whole.glob("*.safetensors")))[name], warned)


print("torch", torch.__version__)
as_seen = True
for name, tensor in [("input_scale", torch.tensor(3.5)), ("layer_scalar", torch.tensor(1.25, dtype=torch.bfloat16))]:
    saved, (got, warned) = joined(name, tensor)
    print(f"{name}: {tensor.item()}, in the shards {saved.item()}, joined {got.item()}, warnings of it: {len(warned)}")
    as_seen = as_seen and saved.equal(tensor) and got.item() == 0 and not warned
for name, tensor in [("rows", torch.randn(4, 3)), ("one_value", torch.tensor([3.5])), ("codes", torch.randn(4, 4).to(torch.float8_e4m3fn))]:
    saved, (got, _) = joined(name, tensor)
    print(f"{name}, {list(tensor.shape)}: joined {'the same' if got.view(torch.uint8).equal(tensor.view(torch.uint8)) else 'another'}")
    as_seen = as_seen and got.view(torch.uint8).equal(tensor.view(torch.uint8))
for name, tensor in [("packed", torch.arange(8, dtype=torch.int32).reshape(2, 4)), ("is_masked", torch.tensor([True, False]))]:
    saved, got = joined(name, tensor)
    print(f"{name}, {tensor.dtype}: in the shards {'the same' if saved.equal(tensor) else 'another'}, joined: {got}")
    as_seen = as_seen and saved.equal(tensor) and isinstance(got, TypeError)
sys.exit(0 if as_seen else 1)
P
"$python" "$work/consolidate.py" "$work"

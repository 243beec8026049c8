#!/usr/bin/env bash
# Training checkpoints of every container and dtype, loaded by torch itself: torch.load and torch.distributed.checkpoint give each tensor's bytes.
# Needs a Python with torch: $SHARDWELD_PYTHON, else python3. Skipped loudly without; a failure under SHARDWELD_REQUIRE=torch.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python_with torch torch

"$(dirname "$SHARDWELD")/write_training_saves" "$WORK/saves" || fail "nothing is written"
"$python" - "$WORK/saves" <<'PYTHON' >"$WORK/loaded" 2>"$WORK/loaded.err" || fail "$(tail -5 "$WORK/loaded.err")"
import json, os, pathlib, sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, TensorProperties
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

root = pathlib.Path(sys.argv[1])
saves = json.loads((root / "tensors.json").read_text())


def wanted(entry):
    raw = torch.tensor(entry["bytes"], dtype=torch.uint8)
    return raw.view(getattr(torch, entry["dtype"])).reshape(entry["shape"])


def equal(found, entry):
    tensor = wanted(entry)
    assert found.dtype == tensor.dtype and found.shape == tensor.shape, (found, entry["path"])
    assert torch.equal(found.contiguous().reshape(-1).view(torch.uint8), tensor.reshape(-1).view(torch.uint8)), entry["path"]


def load_ranks():
    for entry in saves["ranks"]:
        value = torch.load(root / "ranks" / entry["file"], weights_only=True)
        assert value["checkpoint_version"] == 3 and value["args"] == {"name": "a", "many": 70000}
        assert value["model0"]["_extra_state"] is None
        for key in entry["path"]:
            value = value[key]
        equal(value, entry)
    assert torch.load(root / "ranks/iter_0000001/mp_rank_01/model_optim_rng.pt") == {}


def load_mesh(save, n_dims):
    """Without processes; the mesh in the files is theirs."""
    files = {}
    for entry in saves[save]:
        file = entry["file"]
        if file not in files:
            files[file] = torch.load(root / save / file, weights_only=False)
        value = files[file][entry["path"][0]]
        if not entry["whole"]:
            equal(value, entry)
            continue
        assert isinstance(value, DTensor)
        equal(value._local_tensor, entry)
        assert list(value.shape) == entry["whole"] and value.dtype == wanted(entry).dtype
        assert value.placements == tuple([Replicate()] * (n_dims - 1) + [Shard(0)]), value.placements
        assert value.device_mesh.mesh_dim_names == (("ddp", "fsdp") if n_dims == 2 else ("fsdp",))
        assert value.device_mesh.ndim == n_dims


def restore_as_older_torch_does(self, state):
    dtype, layout, requires_grad, memory_format, pin_memory = state
    restore(self, state)


def load_dcp():
    reader = dcp.FileSystemReader(root / "dcp/dist")
    known = reader.read_metadata().state_dict_metadata
    found = {
        key: None if isinstance(value, BytesStorageMetadata) else torch.empty(value.size, dtype=value.properties.dtype)
        for key, value in known.items()
    }
    dcp.load(found, storage_reader=reader, no_dist=True)
    assert found["rng"] == [{"seed": 7}], found["rng"]
    assert torch.load(root / "dcp/dist/common.pt") == {"iteration": 1}
    for entry in saves["dcp"]:
        part = found[".".join(entry["path"])]
        for dim, (begin, size) in enumerate(zip(entry["offsets"], entry["shape"])):
            part = part.narrow(dim, begin, size)
        equal(part, entry)
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(root / "dcp/dist", root / "joined.pt")
    joined = torch.load(root / "joined.pt", weights_only=False)
    assert joined["model"]["nested.weight"].shape == (4,) and joined["bfloat16"].shape == (2, 4)


def load_as_fsdp2_does(rank, save, shape, names):
    """A process of its own: the mesh in the file must be the loader's, or torch refuses to copy."""
    n_ranks = torch.Size(shape).numel()
    os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(rank), WORLD_SIZE=str(n_ranks))
    dist.init_process_group("gloo", init_method=f"file://{root}/{save}.rendezvous", rank=rank, world_size=n_ranks)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    placements = [Replicate()] * (len(shape) - 1) + [Shard(0)]
    for entry in saves[save]:
        if not entry["whole"] or entry["dtype"] == "float8_e4m3fn" or not entry["file"].endswith(f"rank_{rank}.pt"):
            continue
        parameter = torch.distributed.tensor.zeros(entry["whole"], dtype=getattr(torch, entry["dtype"]), device_mesh=mesh, placements=placements)
        module = torch.nn.Module()
        module.weight = torch.nn.Parameter(parameter)
        saved = torch.load(root / save / entry["file"], weights_only=False)
        module.load_state_dict({"weight": saved[entry["path"][0]]})
        equal(module.weight.detach().to_local(), entry)
    dist.destroy_process_group()


restore, TensorProperties.__setstate__ = TensorProperties.__setstate__, restore_as_older_torch_does
load_ranks()
load_mesh("fsdp", 1)
load_mesh("fsdp_cuda", 1)
load_mesh("hsdp", 2)
load_dcp()
print(sum(map(len, saves.values())), "tensors")
if dist.is_available() and dist.is_gloo_available():
    context = torch.multiprocessing.get_context("fork")
    for save, shape, names in (("fsdp", (3,), ("fsdp",)), ("hsdp", (2, 2), ("ddp", "fsdp"))):
        processes = [context.Process(target=load_as_fsdp2_does, args=(rank, save, shape, names)) for rank in range(torch.Size(shape).numel())]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert all(process.exitcode == 0 for process in processes), save
        print(save, "loaded into a model")
PYTHON
cat "$WORK/loaded"
finish

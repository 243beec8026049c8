#!/usr/bin/env python3
"""Loads rank files into models sharded with FSDP2, as verl's worker does, and compares every parameter with the model they were written from.

    load_in_fsdp2.py HF CHECKPOINT WORLD [DDP]

Runs WORLD processes on the CPU. With verl installed its own checkpoint manager loads, else the same two calls of torch. Exits 1 when a tensor differs.
"""
import os
import pathlib
import sys
import tempfile

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

try:
    from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager
except ImportError:
    FSDPCheckpointManager = None


def load(model, checkpoint, rank, world):
    if FSDPCheckpointManager:
        return FSDPCheckpointManager(model, checkpoint_config={"load_contents": ["model"]}).load_checkpoint(checkpoint)
    path = pathlib.Path(checkpoint) / f"model_world_size_{world}_rank_{rank}.pt"
    model.load_state_dict(torch.load(path, weights_only=False))


def sharded_model(hf, mesh):
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(hf), dtype=torch.bfloat16)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter.to_local(), float("nan"))  # what is not loaded shows
    return model


def run(rank, world, ddp, hf, checkpoint, rendezvous):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    shape, names = ((ddp, world // ddp), ("ddp", "fsdp")) if ddp > 1 else ((world,), ("fsdp",))
    model = sharded_model(hf, init_device_mesh("cpu", shape, mesh_dim_names=names))
    load(model, checkpoint, rank, world)
    wanted = transformers.AutoModelForCausalLM.from_pretrained(hf, dtype=torch.bfloat16).state_dict()
    found = model.state_dict()
    assert found.keys() == wanted.keys()
    for name, tensor in found.items():
        assert torch.equal(tensor.full_tensor(), wanted[name]), name
    if rank == 0:
        print(f"{len(found)} tensors loaded by {'verl' if FSDPCheckpointManager else 'torch'}")
    dist.destroy_process_group()


def main():
    hf, checkpoint, world, *ddp = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        arguments = (int(world), int(*ddp or ["1"]), hf, checkpoint, f"{directory}/rendezvous")
        torch.multiprocessing.start_processes(run, arguments, nprocs=int(world), start_method="fork")


if __name__ == "__main__":
    main()

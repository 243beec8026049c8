#!/usr/bin/env python3
"""Loads rank files into models sharded with FSDP2 and compares every parameter with the model they were written from.

    load_in_fsdp2.py torch|verl HF CHECKPOINT WORLD [DDP]

Runs WORLD processes on the CPU. With "verl" its own functions shard the model and its checkpoint manager loads; they need no accelerator, because verl
takes the CPU for its device where there is none. verl's other strategy is FSDP1, of which torch makes no model without an accelerator. With "torch"
both steps are calls of torch. Exits 1 when a tensor differs.
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


def shard_by_torch(model, mesh):
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def load_by_torch(model, checkpoint):
    path = pathlib.Path(checkpoint) / f"model_world_size_{dist.get_world_size()}_rank_{dist.get_rank()}.pt"
    model.load_state_dict(torch.load(path, weights_only=False))


def shard_by_verl(model, mesh):
    from verl.utils.fsdp_utils import apply_fsdp2

    apply_fsdp2(model, {"mesh": mesh}, {})


def load_by_verl(model, checkpoint):
    from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager

    FSDPCheckpointManager(model, checkpoint_config={"load_contents": ["model"]}).load_checkpoint(checkpoint)


LOADERS = {"torch": (shard_by_torch, load_by_torch), "verl": (shard_by_verl, load_by_verl)}


def run(rank, loader, world, ddp, hf, checkpoint, rendezvous):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    shape, names = ((ddp, world // ddp), ("ddp", "fsdp")) if ddp > 1 else ((world,), ("fsdp",))
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(hf), dtype=torch.bfloat16)
    shard, load = LOADERS[loader]
    shard(model, init_device_mesh("cpu", shape, mesh_dim_names=names))
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter.to_local(), float("nan"))  # what is not loaded shows
    load(model, checkpoint)
    wanted = transformers.AutoModelForCausalLM.from_pretrained(hf, dtype=torch.bfloat16).state_dict()
    found = model.state_dict()
    assert found.keys() == wanted.keys()
    for name, tensor in found.items():
        assert torch.equal(tensor.full_tensor(), wanted[name]), name
    if rank == 0:
        print(f"{len(found)} tensors loaded by {loader}")
    dist.destroy_process_group()


def main():
    loader, hf, checkpoint, world, *ddp = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        arguments = (loader, int(world), int(*ddp or ["1"]), hf, checkpoint, f"{directory}/rendezvous")
        torch.multiprocessing.start_processes(run, arguments, nprocs=int(world), start_method="fork")


if __name__ == "__main__":
    main()

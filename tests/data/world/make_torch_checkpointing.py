"""Saves of torch_checkpointing 0.1.1: its CheckpointManager, on the CPU.
Usage: torchrun --nproc_per_node 4 make_torch_checkpointing.py"""
import os
import shutil

import torch
import torch.distributed as dist
from common import OUT, SIZES, whole, write_case
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch_checkpointing.checkpoint_layout import LayoutInfo, SafetensorsSerialization
from torch_checkpointing.checkpoint_manager import CheckpointManager
from torch_checkpointing.default_resharder import DefaultResharder
from torch_checkpointing.metadata_manager import DefaultMetadataManager
from torch_checkpointing.schema import ItemSpec
from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig
from transformers import LlamaConfig, LlamaForCausalLM

TP = {"q_proj": ColwiseParallel(), "k_proj": ColwiseParallel(), "v_proj": ColwiseParallel(), "o_proj": RowwiseParallel(),
      "gate_proj": ColwiseParallel(), "up_proj": ColwiseParallel(), "down_proj": RowwiseParallel()}


def gather(_, data, process_group=None):
    """Its own gathers over CUDA only."""
    all_data = [None] * dist.get_world_size()
    dist.all_gather_object(all_data, data, process_group)
    return dict(enumerate(all_data))


def trained(mesh, tp=None):
    """A model over the mesh, after two steps of Adam, and its optimizer."""
    torch.manual_seed(7)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, architectures=["LlamaForCausalLM"]))
    for layer in model.model.layers:
        if tp is not None:
            parallelize_module(layer, tp, {f"self_attn.{k}" if k[0] in "qkvo" else f"mlp.{k}": v for k, v in TP.items()})
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(2):
        for parameter in model.parameters():
            parameter.grad = torch.sin(parameter.detach() * 7) + step
        optimizer.step()
    return model, optimizer


def save(name, what, model, items, specs):
    source = os.path.join(OUT, name, "source")
    if dist.get_rank() == 0:
        shutil.rmtree(source, ignore_errors=True)
    dist.barrier()
    config = CheckpointManager.Config.with_sync_save()
    config.items, config.storage_config = specs, LocalFileSystemStorageConfig(use_direct_io=False)
    manager = config.build()
    manager.save(source, items)
    manager.close()
    dist.barrier()
    write_case(name, what, model.config.to_dict(), whole(model), ["transformers", "torch_checkpointing"])


dist.init_process_group("gloo")
DefaultMetadataManager._all_gather_pickled_data = gather
SIZES.update(intermediate_size=26, vocab_size=33, num_hidden_layers=1)
world = dist.get_world_size()
mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("dp", "tp"))
model, optimizer = trained(mesh["dp"], mesh["tp"])
sharded = ItemSpec(resharder=DefaultResharder())
save("torch_checkpointing_tp", "files of torch.save, tensor parallelism below FSDP2, uneven; states by number", model,
     {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 2},
     {"model": sharded, "optimizer": sharded})
hybrid = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))
model, optimizer = trained(hybrid)
save("torch_checkpointing_safetensors", "safetensors with local shapes, HSDP, uneven", model,
     {"model": model.state_dict(), "step": 2},
     {"model": ItemSpec(layout=LayoutInfo("model_{rank}.safetensors", SafetensorsSerialization()), resharder=DefaultResharder())})
save("torch_checkpointing_plain", "without a resharder there is no metadata.pkl", model, {"model": model.state_dict()}, {})

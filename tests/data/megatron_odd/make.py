"""Writes the small checkpoints in this directory with torch alone (2.15): forms that today's
megatron-core does not write any more, or that only a damaged or hostile file has.
Usage: python make.py [DIRECTORY]"""
import os
import shutil
import sys
from argparse import Namespace
from collections import OrderedDict

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.filesystem import FileSystemWriter, SerializationFormat

OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def numbers(*shape, start=0, dtype=torch.float32):
    n = 1
    for extent in shape:
        n *= extent
    return torch.arange(start, start + n, dtype=torch.float32).reshape(shape).to(dtype)


def save(case, rank, content):
    directory = os.path.join(OUT, case, rank)
    os.makedirs(directory, exist_ok=True)
    torch.save(content, os.path.join(directory, "model_optim_rng.pt"))


# Names and nesting before megatron-core, in a DDP wrapper, without checkpoint_version.
for rank in range(2):
    layers = {f"layers.{l}.self_attention.query_key_value.weight": numbers(3, 2, start=100 * rank + 10 * l)
              for l in range(2)}
    save("nested", f"mp_rank_0{rank}", {
        "iteration": 5,
        "args": Namespace(num_layers=2, hidden_size=2, tensor_model_parallel_size=2,
                          pipeline_model_parallel_size=1, lr=1.5e-4, bf16=False, name="old", none=None),
        "model": {"module": {"module": {"language_model": {
            "embedding": {"word_embeddings": {"weight": numbers(4, 2)}},
            "encoder": {**layers, "final_layernorm.weight": numbers(2)},
        }}}},
        "optimizer": {"state": numbers(1000)},
    })

# Views into one buffer, and entries that are no tensors; no args.
buffer = numbers(40, dtype=torch.bfloat16)
save("views", "mp_rank_00", {"model": OrderedDict([
    ("decoder.layers.0.a", buffer[30:36].view(2, 3)),
    ("decoder.layers.0.b", buffer[0:20].view(4, 5).t()),
    ("decoder.scalar", buffer[7]),
    ("decoder.empty", torch.zeros(0, 3)),
    ("decoder.layers.0.none", None),
    ("decoder.layers.1.count", 3),
    ("decoder.layers.0.c._extra_state", {"x": numbers(3)}),
]), "something": [1]})

loop = {}
loop["again"] = loop
save("loop", "mp_rank_00", {"model": loop})
bush = {"w": numbers(1)}
for _ in range(11):
    bush = {f"k{i}": bush for i in range(40)}
save("bush", "mp_rank_00", {"model": bush})
save("clash", "mp_rank_00", {"model": {"module.w": numbers(1), "w": numbers(1)}})
save("no_model", "mp_rank_00", {"state_dict": {"w": numbers(1)}})
save("gap", "mp_rank_00", {"model0": {"w": numbers(1)}, "model2": {"w": numbers(1)}})
save("list", "mp_rank_00", [1, 2])
save("interleaved", "mp_rank_00", {"model": {"w": numbers(1)}, "args": Namespace(moe_mlp_glu_interleave_size=32)})
for rank in range(2):
    save("two_saves", f"mp_rank_0{rank}", {"model": {"w": numbers(1)}, "iteration": 10 + rank})

# Plain DCP with Megatron's keys in wrappers, as archives and as one safetensors container per file.
state = {"model": {"module": {"decoder.layers.0.mlp.linear_fc1.weight": numbers(4, 3, dtype=torch.bfloat16),
                              "decoder.final_layernorm.weight": numbers(3)}},
         "optimizer": {"state": {"x": numbers(3)}}, "iteration": 7}
for name, form in (("dcp", SerializationFormat.TORCH_SAVE), ("dcp_safetensors", SerializationFormat.SAFETENSORS)):
    shutil.rmtree(os.path.join(OUT, name), ignore_errors=True)
    dcp.save(state, storage_writer=FileSystemWriter(os.path.join(OUT, name), serialization_format=form), no_dist=True)
both = {"module.decoder.final_layernorm.weight": numbers(3), "decoder.final_layernorm.weight": numbers(3)}
shutil.rmtree(os.path.join(OUT, "dcp_clash"), ignore_errors=True)
dcp.save(both, storage_writer=FileSystemWriter(os.path.join(OUT, "dcp_clash")), no_dist=True)
shutil.rmtree(os.path.join(OUT, "dcp_optimizer_only"), ignore_errors=True)
dcp.save({"optimizer": {"state": {"decoder.final_layernorm.weight": numbers(3)}}},
         storage_writer=FileSystemWriter(os.path.join(OUT, "dcp_optimizer_only")), no_dist=True)

"""What the generators of this directory share: a toy model, and how a case is written."""
import importlib.metadata
import json
import os
import subprocess
import sys

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullStateDictConfig, StateDictType, fully_shard
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("OUT", HERE)
DIGEST = os.path.join(HERE, "../../support/digest_safetensors.py")
SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 32, "max_position_embeddings": 64, "tie_word_embeddings": False}


def toy():
    torch.manual_seed(7)
    return LlamaForCausalLM(LlamaConfig(**SIZES, architectures=["LlamaForCausalLM"]))


def shard2(model):
    """FSDP2 on the CPU."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def shard1(model, use_orig_params=True):
    """FSDP1 on the CPU."""
    return FSDP(model, auto_wrap_policy=ModuleWrapPolicy({LlamaDecoderLayer}), use_orig_params=use_orig_params, device_id=torch.device("cpu"))


def whole(model):
    """The full state dict."""
    if isinstance(model, FSDP):
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=False)):
            state = model.state_dict()
    else:
        state = model.state_dict()
    return {name: (value.full_tensor() if hasattr(value, "full_tensor") else value).detach().clone().contiguous()
            for name, value in state.items()}


def write_case(name, what, config, state, packages):
    """Everything of a case but `source`; on rank 0."""
    if dist.get_rank() == 0:
        directory = os.path.join(OUT, name)
        for part in ("hf", "expected"):
            os.makedirs(os.path.join(directory, part), exist_ok=True)
        with open(os.path.join(directory, "hf/config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=1)
        model = os.path.join(directory, "expected.safetensors")
        save_file(state, model, metadata={"format": "pt"})
        subprocess.run([sys.executable, DIGEST, model, os.path.join(directory, "expected/expected.json")], check=True)
        os.remove(model)
        software = {package: importlib.metadata.version(package) for package in ("torch", *packages)}
        with open(os.path.join(directory, "case.json"), "w", encoding="utf-8") as file:
            json.dump({"case": name, "what": what, "software": software}, file, indent=1)
            file.write("\n")
    dist.barrier()

#!/usr/bin/env python3
"""Makes what other mergers read and only a framework can write, in the Python that has it:

    input_program.py fsdp OUT GB            verl's rank files of bf16 weights, and their config in OUT/hf
    input_program.py dcp|shards OUT MODEL   what several processes save that hold MODEL, a HuggingFace model, in parts
    input_program.py adapter OUT MODEL      a LoRA adapter of MODEL

OUT/source is the checkpoint."""
import json
import math
import os
import sys
import tempfile
import zlib

HIDDEN, FFN, VOCAB, GROUPS, HEADS, WORLD = 2048, 5632, 32000, 512, 16, 8
SAVERS = 4
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", GLOO_SOCKET_IFNAME="lo")


def shapes(layers):
    """Names and shapes of a Llama without a config of its own."""
    yield "model.embed_tokens.weight", (VOCAB, HIDDEN)
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        yield prefix + "self_attn.q_proj.weight", (HIDDEN, HIDDEN)
        yield prefix + "self_attn.k_proj.weight", (GROUPS, HIDDEN)
        yield prefix + "self_attn.v_proj.weight", (GROUPS, HIDDEN)
        yield prefix + "self_attn.o_proj.weight", (HIDDEN, HIDDEN)
        yield prefix + "mlp.gate_proj.weight", (FFN, HIDDEN)
        yield prefix + "mlp.up_proj.weight", (FFN, HIDDEN)
        yield prefix + "mlp.down_proj.weight", (HIDDEN, FFN)
        yield prefix + "input_layernorm.weight", (HIDDEN,)
        yield prefix + "post_attention_layernorm.weight", (HIDDEN,)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCAB, HIDDEN)


def layers_of(gigabytes, width):
    per_layer = sum(math.prod(shape) for name, shape in shapes(1) if ".0." in name)
    return max(1, round((gigabytes * 1e9 / width - 2 * VOCAB * HIDDEN) / per_layer))


def fsdp(out, gigabytes):
    """A verl FSDP2 checkpoint of bf16 weights in OUT/source and its config in OUT/hf. Saved by this torch, which reads no older one's device meshes; each
    rank's DTensors lie on a real mesh over torch's fake process group."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore
    layers = layers_of(gigabytes, 2)
    pool = torch.randn(1 << 25, generator=torch.Generator().manual_seed(0)).mul_(0.02).bfloat16()

    def local(name, rank, shape):
        step = -(-shape[0] // WORLD)
        rows = max(0, min((rank + 1) * step, shape[0]) - min(rank * step, shape[0]))
        begin = zlib.crc32(f"{name}/{rank}".encode()) % (1 << 20)
        # A storage of its own, as torch.save writes whole storages.
        return pool[begin:begin + rows * math.prod(shape[1:])].clone().view(rows, *shape[1:])

    os.makedirs(f"{out}/source")
    for rank in range(WORLD):
        dist.init_process_group("fake", rank=rank, world_size=WORLD, store=FakeStore())
        mesh = init_device_mesh("cpu", (WORLD,), mesh_dim_names=("fsdp",))
        state = {name: DTensor.from_local(local(name, rank, shape), mesh, [Shard(0)], run_check=False, shape=torch.Size(shape),
                                          stride=(shape[1], 1) if len(shape) > 1 else (1,)) for name, shape in shapes(layers)}
        torch.save(state, f"{out}/source/model_world_size_{WORLD}_rank_{rank}.pt")
        dist.destroy_process_group()
    os.makedirs(f"{out}/hf")
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": layers,
              "num_attention_heads": HEADS, "num_key_value_heads": GROUPS * HEADS // HIDDEN, "head_dim": HIDDEN // HEADS, "vocab_size": VOCAB,
              "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    for path, content in ((f"{out}/source/fsdp_config.json", {"FSDP_version": 2, "world_size": WORLD}), (f"{out}/hf/config.json", config)):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)


def parts(form, out, model):
    """What torch's or transformers' own save makes of a model that transformers has loaded in parts, one for each process."""
    import torch
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(_save, (form, f"{out}/source", model, f"{directory}/rendezvous"), nprocs=SAVERS, start_method="fork")


def _save(rank, form, target, model, rendezvous):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(SAVERS))
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict
    from transformers import LlamaForCausalLM
    from transformers.distributed import DistributedConfig
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=SAVERS)
    loaded = LlamaForCausalLM.from_pretrained(model, dtype=torch.bfloat16, distributed_config=DistributedConfig(fsdp_size=SAVERS))
    if form == "dcp":
        dcp.save(get_model_state_dict(loaded), checkpoint_id=target)
    else:
        loaded.save_pretrained(target, distributed_checkpoint=True)
    torch.distributed.destroy_process_group()


def adapter(out, model):
    """PEFT's adapter of rank 16 of all linear layers but the head, with values in both factors, as training leaves them."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaForCausalLM
    torch.manual_seed(0)
    adapted = get_peft_model(LlamaForCausalLM.from_pretrained(model, dtype=torch.bfloat16), LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.02)
    adapted.save_pretrained(f"{out}/source")


def main():
    name, out, of = sys.argv[1:]
    if name == "fsdp":
        fsdp(out, float(of))
    elif name == "adapter":
        adapter(out, of)
    else:
        parts(name, out, of)


if __name__ == "__main__":
    main()

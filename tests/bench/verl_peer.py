#!/usr/bin/env python3
"""Times shardweld beside verl's own FSDP merger and `cp -r`, in interleaved runs on one checkpoint made by torch.

    verl_peer.py --shardweld build/bin/shardweld --dir DIR [--gb 4] [--world 8] [--dtype bf16] [--pairs 3] [--ranks 2]

Needs a Python with torch, transformers, safetensors and verl. verl's time is that of its merge, imports left out; its memory is that of its
process, shardweld's the sum over its ranks. The page cache is warm, nobody waits for the disk (--no_fsync).
"""
import argparse
import importlib.abc
import importlib.machinery
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import types
import zlib

HIDDEN, FFN, VOCAB, GROUPS, HEADS = 2048, 5632, 32000, 512, 16


def shapes(layers):
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


def make(directory, gigabytes, world, dtype_name):
    """A verl FSDP2 directory; each rank's DTensors lie on a real mesh over torch's fake process group."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[dtype_name]
    width = torch.empty(0, dtype=dtype).element_size()
    per_layer = sum(torch.Size(s).numel() for n, s in shapes(1) if ".0." in n)
    layers = max(1, round((gigabytes * 1e9 / width - 2 * VOCAB * HIDDEN) / per_layer))
    pool = torch.randn(1 << 25, generator=torch.Generator().manual_seed(0)).mul_(0.02).to(dtype)

    def local(name, rank, shape):
        step = -(-shape[0] // world)
        rows = max(0, min((rank + 1) * step, shape[0]) - min(rank * step, shape[0]))
        begin = zlib.crc32(f"{name}/{rank}".encode()) % (1 << 20)
        size = rows * (shape[1] if len(shape) > 1 else 1)
        # A storage of its own, as torch.save writes whole storages.
        return pool[begin:begin + size].clone().view(rows, *shape[1:])

    os.makedirs(f"{directory}/huggingface")
    for rank in range(world):
        dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("fsdp",))
        state = {name: DTensor.from_local(local(name, rank, shape), mesh, [Shard(0)], run_check=False, shape=torch.Size(shape),
                                          stride=(shape[1], 1) if len(shape) > 1 else (1,)) for name, shape in shapes(layers)}
        torch.save(state, f"{directory}/model_world_size_{world}_rank_{rank}.pt")
        dist.destroy_process_group()
    with open(f"{directory}/fsdp_config.json", "w", encoding="utf-8") as file:
        json.dump({"FSDP_version": 2, "world_size": world}, file)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": FFN,
              "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS * HEADS // HIDDEN,
              "head_dim": HIDDEN // HEADS, "vocab_size": VOCAB, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    with open(f"{directory}/huggingface/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                 "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
                 "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1}, "unk_token": "<unk>"}}
    with open(f"{directory}/huggingface/tokenizer.json", "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)
    with open(f"{directory}/huggingface/tokenizer_config.json", "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}, file)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules for what verl imports at the top and merging never uses, where it is not installed."""
    NAMES = ("ray", "tensordict", "datasets", "codetiming", "hydra", "omegaconf", "pandas", "torchdata", "PIL", "dill")

    class Anything(types.ModuleType):
        __path__ = []

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {"__init__": lambda s, *a, **k: None, "__call__": lambda s, *a, **k: a[0] if a and callable(a[0]) else s,
                                   "__class_getitem__": classmethod(lambda c, i: c)})

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.NAMES else None

    def create_module(self, spec):
        return self.Anything(spec.name)

    def exec_module(self, module):
        pass


def merge_by_verl(source, target):
    import resource
    sys.meta_path.append(StandIns())
    from verl.model_merger.base_model_merger import ModelMergerConfig
    from verl.model_merger.fsdp_model_merger import FSDPModelMerger
    os.makedirs(target)
    merger = FSDPModelMerger(ModelMergerConfig(operation="merge", backend="fsdp", local_dir=source, target_dir=target,
                                               hf_model_config_path=f"{source}/huggingface"))
    begin = time.time()
    merger.merge_and_save()
    print(json.dumps({"seconds": time.time() - begin, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def timed(command, environment):
    begin = time.time()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    return time.time() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardweld")
    parser.add_argument("--dir")
    parser.add_argument("--gb", type=float, default=4)
    parser.add_argument("--world", type=int, default=8)
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--merge", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.merge:
        merge_by_verl(*given.merge)
        return
    source = f"{given.dir}/verl-fsdp-{given.gb}gb-{given.world}-{given.dtype}"
    if not os.path.isdir(source):
        make(source + ".part", given.gb, given.world, given.dtype)
        os.rename(source + ".part", source)
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_mpi_yield_when_idle="1")
    for name in os.listdir(source):  # warm
        if name.endswith(".pt"):
            with open(f"{source}/{name}", "rb") as file:
                while file.read(1 << 24):
                    pass
    target, report = f"{given.dir}/peer-target", f"{given.dir}/peer-report.json"
    rows = []
    for _ in range(given.pairs):
        shutil.rmtree(target, ignore_errors=True)
        ours = timed(["mpirun", "-n", str(given.ranks), "--bind-to", "none", given.shardweld, "merge", "--local_dir", source, "--target_dir", target,
                      "--dtype", "bf16", "--no_fsync", "--report", report, "-q"], environment)
        with open(report, encoding="utf-8") as file:
            our_peak = sum(rank["peak_bytes"] for rank in json.load(file)["ranks"])
        shutil.rmtree(target)
        os.sync()
        said = subprocess.run([sys.executable, __file__, "--merge", source, target], check=True, capture_output=True, text=True, env=environment)
        verl = json.loads(said.stdout.strip().splitlines()[-1])
        shutil.rmtree(target)
        os.sync()
        copy = timed(["cp", "-r", source, target], environment)
        shutil.rmtree(target)
        os.sync()
        rows.append((ours, verl["seconds"], copy, our_peak, verl["peak"]))
        print(f"shardweld {ours:.2f} s, verl {verl['seconds']:.2f} s, cp {copy:.2f} s; peak {our_peak / 1e6:.0f} MB, {verl['peak'] / 1e6:.0f} MB", flush=True)
    print(f"verl / shardweld: median {statistics.median(v / o for o, v, *_ in rows):.1f}; "
          f"shardweld / cp: median {statistics.median(o / c for o, _, c, *_ in rows):.2f}; "
          f"peak verl / shardweld: {statistics.median(b / a for *_, a, b in rows):.0f}")


if __name__ == "__main__":
    main()

"""Two forms in which Megatron saves whole tensors: legacy rank files and zarr directories. Python's standard library only.

Knows files; what a tensor holds and how ranks share it is given (`share(rank)`, `whole()`, and the parts' names).
"""
import argparse
import collections
import io
import json
import os

import damage
import small_families as small

RANKS = 2
KINDS = {"BF16": ("BFloat16Storage", "bfloat16"), "F32": ("FloatStorage", "<f4")}


def args_of(config):
    """What a run of two tensor-parallel ranks states of itself."""
    family = config["model_type"]
    layers, hidden, heads = (config.get(name, config.get(short)) for name, short in (
        ("num_hidden_layers", "n_layer"), ("hidden_size", "n_embd"), ("num_attention_heads", "n_head")))
    return argparse.Namespace(
        num_layers=layers, hidden_size=hidden, num_attention_heads=heads,
        tensor_model_parallel_size=RANKS, pipeline_model_parallel_size=1, expert_model_parallel_size=1, expert_tensor_parallel_size=RANKS,
        apply_layernorm_1p=family in small.ZERO_CENTRED, rotary_interleaved=family in small.INTERLEAVED,
        untie_embeddings_and_output_weights=not config.get("tie_word_embeddings", True))


def write_legacy(directory, config, stored):
    make = damage.named("torch._utils", "_rebuild_tensor_v2")
    for rank in range(RANKS):
        records, model = {}, collections.OrderedDict()
        for key, (name, one) in enumerate(stored.items()):
            dtype, shape, data = one.share(rank)
            strides = [1]
            for extent in reversed(shape[1:]):
                strides.insert(0, strides[0] * extent)
            count = len(data) // small.SIZES[dtype]
            storage = damage.Storage(("storage", damage.named("torch", KINDS[dtype][0]), str(key), "cpu", count))
            model[name] = make(storage, 0, shape, tuple(strides), False, collections.OrderedDict())
            records[f"archive/data/{key}"] = data
        out = io.BytesIO()
        damage.Writer(out, 2).dump({"args": args_of(config), "checkpoint_version": 3.0, "iteration": 1, "model": model})
        target = os.path.join(directory, f"mp_rank_{rank:02d}")
        os.makedirs(target)
        damage.write_records(os.path.join(target, "model_optim_rng.pt"), {"archive/data.pkl": out.getvalue(), "archive/version": b"3\n", **records})


def whole_tensors(stored):
    """Under the keys of distributed checkpoints: experts in one tensor, parts that have names apart."""
    whole, experts = {}, {}
    for name, one in stored.items():
        if one.names:
            whole |= {f"{name}.{part}": tensor for part, tensor in zip(one.names, one.parts)}
        elif one.expert is not None:
            key = name[:-len(str(one.expert))].replace(".mlp.experts.", ".mlp.experts.experts.")
            experts.setdefault(key, []).append(one.whole())
        else:
            whole[name] = one.whole()
    for key, parts in experts.items():
        dtype, shape, _ = parts[0]
        whole[key] = dtype, (len(parts), *shape), b"".join(data for _, _, data in parts)
    return whole


def write_zarr(directory, stored):
    os.makedirs(directory)
    with open(os.path.join(directory, "metadata.json"), "w") as file:
        json.dump({"sharded_backend": "zarr", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1}, file)
    for key, (dtype, shape, data) in whole_tensors(stored).items():
        os.makedirs(os.path.join(directory, key))
        with open(os.path.join(directory, key, ".zarray"), "w") as file:
            json.dump({"chunks": shape, "compressor": None, "dtype": KINDS[dtype][1], "fill_value": None, "filters": None, "order": "C",
                       "shape": shape, "zarr_format": 2}, file)
        with open(os.path.join(directory, key, ".".join("0" for _ in shape)), "wb") as file:
            file.write(data)

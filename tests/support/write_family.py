#!/usr/bin/env python3
"""Writes a small model of a family as Megatron would save it, and as the HuggingFace model it comes from.

    write_family.py FAMILY DIRECTORY [fused]

    fused: latent attention with both down-projections in one (mla_down_proj_fusion)

    DIRECTORY/hf/config.json, DIRECTORY/expected/model.safetensors
    DIRECTORY/legacy/source   one file for each of two tensor-parallel ranks, with args
    DIRECTORY/zarr/source     whole tensors under the keys of distributed checkpoints

Forwards only, from HuggingFace's names and rows to Megatron's (Transformer Engine's names): what undoes it is under test.
Python's standard library only.
"""
import json
import os
import struct
import sys

import edit_safetensors
import small_families as small
from megatron_forms import RANKS, write_legacy, write_zarr


class Stored:
    """A whole tensor and how tensor-parallel ranks share it: None, an axis, or "parts" (each on its own, one after another)."""

    def __init__(self, parts, split=None, names=(), expert=None):
        self.parts, self.split, self.names, self.expert = parts, split, names, expert

    def whole(self):
        return cat(self.parts)

    def share(self, rank):
        if self.split is None:
            return self.whole()
        if self.split == 1:
            return columns(self.whole(), rank)
        parts = self.parts if self.split == "parts" else [self.whole()]
        return cat([blocks(part, RANKS)[rank] for part in parts])


def row_bytes(tensor):
    dtype, shape, data = tensor
    return len(data) // shape[0] if shape else len(data)


def rows(tensor, begin, end):
    dtype, shape, data = tensor
    size = row_bytes(tensor)
    return dtype, (end - begin, *shape[1:]), data[begin * size:end * size]


def cut(tensor, lengths):
    at, out = 0, []
    for length in lengths:
        out.append(rows(tensor, at, at + length))
        at += length
    assert at == tensor[1][0], (at, tensor[1])
    return out


def cat(tensors):
    dtype, shape, _ = tensors[0]
    return dtype, (sum(t[1][0] for t in tensors), *shape[1:]), b"".join(t[2] for t in tensors)


def blocks(tensor, count):
    return cut(tensor, [tensor[1][0] // count] * count)


def columns(tensor, rank):
    dtype, (height, width), data = tensor
    size = row_bytes(tensor) // RANKS
    lines = [data[row * size * RANKS:][rank * size:(rank + 1) * size] for row in range(height)]
    return dtype, (height, width // RANKS), b"".join(lines)


def transposed(tensor):
    dtype, (height, width), data = tensor
    size = small.SIZES[dtype]
    return dtype, (width, height), b"".join(data[(row * width + column) * size:][:size] for column in range(width) for row in range(height))


def plus_one(tensor):
    """bf16 + 1 in fp32, rounded to the nearest, ties to even."""
    out = b""
    for (bits,) in struct.iter_unpack("<H", tensor[2]):
        (value,) = struct.unpack("<f", struct.pack("<I", bits << 16))
        (wide,) = struct.unpack("<I", struct.pack("<f", value + 1))
        out += struct.pack("<H", (wide + 0x7fff + (wide >> 16 & 1)) >> 16)
    return (*tensor[:2], out)


class Layer:
    """One transformer layer: `hf` and `to` are the prefixes of its names."""

    def __init__(self, config, tensors, hf, number, out, to):
        self.config, self.tensors, self.hf, self.number, self.out, self.to = config, tensors, hf, number, out, to
        self.family = config["model_type"]

    def has(self, name):
        return self.hf + name in self.tensors

    def take(self, name):
        return self.tensors[self.hf + name]

    def put(self, name, tensors, split=None, **more):
        self.out[self.to + name] = Stored(tensors if isinstance(tensors, list) else [tensors], split, **more)

    def copy(self, name, source, split=None):
        if self.has(source):
            self.put(name, self.take(source), split)

    def write(self):
        if not small.is_full(self.config, self.number):
            self.delta_net()
        elif "kv_lora_rank" in self.config:
            self.latent_attention()
        else:
            self.attention()
        self.norms()
        self.feed_forward()

    def groups(self, leaf):
        """Query, (gate,) key and value rows, group by group."""
        heads, groups, d = (self.config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        if self.has("self_attn.qkv_proj." + leaf):
            q, k, v = cut(self.take("self_attn.qkv_proj." + leaf), [heads * d, groups * d, groups * d])
        else:
            q, k, v = (self.take(f"self_attn.{name}_proj.{leaf}") for name in "qkv")
        wanted = [blocks(q, groups), blocks(k, groups), blocks(v, groups)]
        if q[1][0] == 2 * heads * d:
            both = blocks(q, 2 * heads)
            wanted[:1] = [blocks(cat(both[0::2]), groups), blocks(cat(both[1::2]), groups)]
        return [part for group in zip(*wanted) for part in group]

    def attention(self):
        self.put("self_attention.linear_qkv.weight", self.groups("weight"), 0)
        if self.has("self_attn.q_proj.bias"):
            self.put("self_attention.linear_qkv.bias", self.groups("bias"), 0)
        for leaf in ("weight", "bias"):
            self.copy("self_attention.linear_qkv.layer_norm_" + leaf, "input_layernorm." + leaf)
        self.copy("self_attention.q_layernorm.weight", "self_attn.q_norm.weight")
        self.copy("self_attention.k_layernorm.weight", "self_attn.k_norm.weight")
        self.copy("self_attention.linear_proj.weight", "self_attn.o_proj.weight", 1)
        self.copy("self_attention.linear_proj.bias", "self_attn.o_proj.bias")

    def latent_attention(self):
        if self.config.get("fused"):
            self.copy("self_attention.linear_qkv_down_proj.layer_norm_weight", "input_layernorm.weight")
            self.put("self_attention.linear_qkv_down_proj.weight",
                     [self.take("self_attn.q_a_proj.weight"), self.take("self_attn.kv_a_proj_with_mqa.weight")], "parts")
        else:
            self.copy("input_layernorm.weight", "input_layernorm.weight")
            self.copy("self_attention.linear_q_down_proj.weight", "self_attn.q_a_proj.weight")
            self.copy("self_attention.linear_kv_down_proj.weight", "self_attn.kv_a_proj_with_mqa.weight")
        for name, source, split in (("linear_q_up_proj.layer_norm_weight", "q_a_layernorm", None), ("linear_q_up_proj.weight", "q_b_proj", 0),
                                    ("linear_kv_up_proj.layer_norm_weight", "kv_a_layernorm", None), ("linear_kv_up_proj.weight", "kv_b_proj", 0),
                                    ("linear_proj.weight", "o_proj", 1)):
            self.copy("self_attention." + name, f"self_attn.{source}.weight", split)

    def delta_net(self):
        nk, nv, dk, dv = (self.config["linear_" + key] for key in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim"))
        r = nv // nk
        if self.has("linear_attn.in_proj_qkvz.weight"):
            heads = [cut(head, [dk, dk, r * dv, r * dv]) for head in blocks(self.take("linear_attn.in_proj_qkvz.weight"), nk)]
            gates = [cut(head, [r, r]) for head in blocks(self.take("linear_attn.in_proj_ba.weight"), nk)]
            parts = [cat(list(part)) for part in zip(*heads)] + [cat(list(part)) for part in zip(*gates)]
        else:
            parts = cut(self.take("linear_attn.in_proj_qkv.weight"), [nk * dk, nk * dk, nv * dv])
            parts += [self.take(f"linear_attn.in_proj_{part}.weight") for part in "zba"]
        self.put("self_attention.in_proj.weight", parts, "parts", names=("query", "key", "value", "z", "beta", "alpha"))
        conv = cut(self.take("linear_attn.conv1d.weight"), [nk * dk, nk * dk, nv * dv])
        self.put("self_attention.conv1d.weight", conv, "parts", names=("query", "key", "value"))
        self.copy("self_attention.in_proj.layer_norm_weight", "input_layernorm.weight")
        self.copy("self_attention.A_log", "linear_attn.A_log", 0)
        self.copy("self_attention.dt_bias", "linear_attn.dt_bias", 0)
        self.copy("self_attention.out_proj.weight", "linear_attn.out_proj.weight", 1)
        # The one tensor that is not copied: zero-centred here, not on the hub.
        self.copy("self_attention.out_norm.weight", "linear_attn.norm.weight")
        self.tensors[self.hf + "linear_attn.norm.weight"] = plus_one(self.take("linear_attn.norm.weight"))

    def norms(self):
        before, after_attention, after = "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm"
        if self.family in (*small.GEMMA, "exaone4"):
            before, after_attention, after = "pre_feedforward_layernorm", "post_attention_layernorm", "post_feedforward_layernorm"
        fused = not self.has("mlp.gate.weight")
        for leaf in ("weight", "bias"):
            self.copy("mlp.linear_fc1.layer_norm_" + leaf if fused else "pre_mlp_layernorm." + leaf, f"{before}.{leaf}")
        self.copy("self_attention.linear_proj.post_layernorm.weight", after_attention + ".weight")
        self.copy("mlp.linear_fc2.post_layernorm.weight", after + ".weight")

    def gated(self, to, source, **more):
        if self.has(source + "gate_up_proj.weight"):
            parts = blocks(self.take(source + "gate_up_proj.weight"), 2)
        else:
            parts = [self.take(source + name) for name in ("gate_proj.weight", "up_proj.weight") if self.has(source + name)]
        self.put(to[0], parts, "parts", **more)
        self.put(to[1], self.take(source + "down_proj.weight"), 1, **more)

    def feed_forward(self):
        if not self.has("mlp.gate.weight"):
            self.gated(("mlp.linear_fc1.weight", "mlp.linear_fc2.weight"), "mlp.")
            return
        self.copy("mlp.router.weight", "mlp.gate.weight")
        self.copy("mlp.router.expert_bias", "mlp.gate.e_score_correction_bias")
        for shared in ("mlp.shared_expert.", "mlp.shared_experts."):
            if self.has(shared + "up_proj.weight"):
                self.gated(("mlp.shared_experts.linear_fc1.weight", "mlp.shared_experts.linear_fc2.weight"), shared)
        self.copy("mlp.shared_experts.gate_weight", "mlp.shared_expert_gate.weight")
        for expert in range(4):
            names = (f"mlp.experts.linear_fc{i}.weight{expert}" for i in (1, 2))
            self.gated(tuple(names), f"mlp.experts.{expert}.", expert=expert)


def gpt2_of(config, tensors, padding):
    """GPT-2's matrices are input by output; its heads have keys and values of their own."""
    out = {"embedding.word_embeddings.weight": Stored([tensors["transformer.wte.weight"], padding], 0),
           "embedding.position_embeddings.weight": Stored([tensors["transformer.wpe.weight"]])}
    names = {"ln_1": "self_attention.linear_qkv.layer_norm_", "ln_2": "mlp.linear_fc1.layer_norm_", "attn.c_attn": "self_attention.linear_qkv.",
             "attn.c_proj": "self_attention.linear_proj.", "mlp.c_fc": "mlp.linear_fc1.", "mlp.c_proj": "mlp.linear_fc2."}
    for leaf in ("weight", "bias"):
        out["decoder.final_layernorm." + leaf] = Stored([tensors["transformer.ln_f." + leaf]])
        for layer in range(config["n_layer"]):
            for source, name in names.items():
                one = tensors[f"transformer.h.{layer}.{source}.{leaf}"]
                one = transposed(one) if len(one[1]) == 2 else one
                if source == "attn.c_attn":
                    one = cat([part for head in zip(*(blocks(rows, config["n_head"]) for rows in blocks(one, 3))) for part in head])
                is_rows = source in ("attn.c_attn", "mlp.c_fc")
                split = 0 if is_rows else 1 if source.endswith("c_proj") and leaf == "weight" else None
                out[f"decoder.layers.{layer}.{name}{leaf}"] = Stored([one], split)
    return out


def megatron_of(config, tensors):
    """{name: Stored}; changes the tensors of the HuggingFace model that Megatron holds otherwise."""
    padding = ("BF16", (128 * RANKS - small.VOCAB, small.h), b"\x01\x3f" * ((128 * RANKS - small.VOCAB) * small.h))
    if config["model_type"] == "gpt2":
        return gpt2_of(config, tensors, padding)
    out = {"embedding.word_embeddings.weight": Stored([tensors["model.embed_tokens.weight"], padding], 0),
           "decoder.final_layernorm.weight": Stored([tensors["model.norm.weight"]])}
    if "model.norm.bias" in tensors:
        out["decoder.final_layernorm.bias"] = Stored([tensors["model.norm.bias"]])
    if "lm_head.weight" in tensors:
        out["output_layer.weight"] = Stored([tensors["lm_head.weight"], padding], 0)
    layers = config["num_hidden_layers"]
    for layer in range(layers):
        Layer(config, tensors, f"model.layers.{layer}.", layer, out, f"decoder.layers.{layer}.").write()
    if small.has_extra_layer(config):
        prefix, others = small.extra_layer(config, layers)
        Layer(config, tensors, prefix, layers, out, "mtp.layers.0.transformer_layer.").write()
        for name, source in others.items():
            out[f"mtp.layers.0.{name}.weight"] = Stored([tensors[source + ".weight"]], 0 if name == "eh_proj" else None)
    return out


def main():
    family, directory, *fused = sys.argv[1:]
    config, tensors = small.model_of(family)
    stored = megatron_of({**config, "fused": fused}, tensors)
    hub_config, tensors = small.on_the_hub(config, tensors)
    for name in ("hf", "expected"):
        os.makedirs(os.path.join(directory, name))
        with open(os.path.join(directory, name, "config.json"), "w") as file:
            json.dump(hub_config, file)
    edit_safetensors.write(os.path.join(directory, "expected", "model.safetensors"), tensors)
    write_legacy(os.path.join(directory, "legacy", "source"), config, stored)
    write_zarr(os.path.join(directory, "zarr", "source"), stored)


if __name__ == "__main__":
    main()

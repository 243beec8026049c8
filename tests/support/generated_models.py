"""Usage: generated_models.py OUT

Small models of types whose recipes were made of transformers (src/models/recipes/generated), of random bf16 values: OUT/TYPE/tree under the names of the
module tree, OUT/TYPE/hub as save_pretrained writes it. Names and cuts were taken from transformers 5.24's conversion_mapping.py by hand.
"""

import json
import pathlib
import random
import sys

import edit_safetensors

VALUES = random.Random(7)
h, f, E = 6, 4, 3


def rows(n, columns=h):
    return [VALUES.randbytes(2 * columns) for _ in range(n)]


def matrix(lines, columns=h):
    return ["BF16", [len(lines), columns], b"".join(lines)]


def stack(parts, columns=h):
    return ["BF16", [len(parts), len(parts[0]), columns], b"".join(b"".join(part) for part in parts)]


def experts(tree, hub, stored, saved, names):
    gate, up, down = ([rows(f) for _ in range(E)], [rows(f) for _ in range(E)], [rows(h, f) for _ in range(E)])
    tree[stored + "gate_up_proj"] = stack([a + b for a, b in zip(gate, up)])
    tree[stored + "down_proj"] = stack(down, f)
    for e in range(E):
        hub[f"{saved}{e}.{names[0]}.weight"] = matrix(gate[e])
        hub[f"{saved}{e}.{names[1]}.weight"] = matrix(up[e])
        hub[f"{saved}{e}.{names[2]}.weight"] = matrix(down[e], f)


def both(tree, hub, stored, saved, n=5):
    tree[stored] = hub[saved] = matrix(rows(n))


def flint():
    tree, hub = {}, {}
    both(tree, hub, "model.embed_tokens.weight", "model.embed_tokens.weight")
    for layer in range(12):
        both(tree, hub, f"model.layers.{layer}.self_attn.sinks", f"model.layers.{layer}.self_attn.softmax_offset")
        both(tree, hub, f"model.layers.{layer}.self_attn.q_proj.weight", f"model.layers.{layer}.self_attn.q_proj.weight")
        if layer > 0:
            experts(tree, hub, f"model.layers.{layer}.mlp.experts.", f"model.layers.{layer}.mlp.experts.", ["gate_proj", "up_proj", "down_proj"])
    return {}, tree, hub


def glm5_next():
    tree, hub = {}, {}
    for layer in range(2):
        at = f"model.language_model.layers.{layer}."
        both(tree, hub, at + "attn_hc.base", at + "hc_attn_base")
        both(tree, hub, at + "self_attn.forget_gate.f_a_proj.weight", at + "self_attn.f_a_proj.weight")
        parts = [rows(4, 3) for _ in range(3)]
        tree[at + "self_attn.conv1d.weight"] = ["BF16", [12, 1, 3], b"".join(b"".join(part) for part in parts)]
        for name, part in zip("qkv", parts):
            hub[f"{at}self_attn.{name}_conv1d.weight"] = ["BF16", [4, 1, 3], b"".join(part)]
        experts(tree, hub, at + "mlp.experts.", at + "mlp.experts.", ["gate_proj", "up_proj", "down_proj"])
    return {}, tree, hub


def mistral_large4():
    tree, hub = {}, {}
    both(tree, hub, "lm_head.weight", "output.weight")
    both(tree, hub, "model.language_model.layers.0.self_attn.indexer.wk.weight", "layers.0.attention.indexer.wk.weight")
    both(tree, hub, "model.language_model.layers.0.mlp.gate_proj.weight", "layers.0.feed_forward.w1.weight")
    experts(tree, hub, "model.language_model.layers.1.mlp.experts.", "layers.1.experts.", ["w1", "w3", "w2"])
    heads, half = 2, 3
    halves = [[rows(half) for _ in range(2)] for _ in range(heads)]
    tree["model.vision_tower.transformer.layers.0.attention.q_proj.weight"] = matrix([row for head in halves for part in head for row in part])
    hub["vision_encoder.transformer.layers.0.attention.wq.weight"] = matrix([row for head in halves for pair in zip(*head) for row in pair])
    return {"vision_config": {"num_attention_heads": heads}}, tree, hub


def lara_mini():
    tree, hub = {}, {}
    at = "model.layers.0.linear_attn."
    both(tree, hub, at + "norm.weight", at + "out_norm.weight")
    parts = {name: rows(n) for name, n in {"qkv": 8, "z": 4, "b": 2, "a": 2}.items()}
    tree.update({f"{at}in_proj_{name}.weight": matrix(part) for name, part in parts.items()})
    hub[at + "in_proj.weight"] = matrix([row for part in parts.values() for row in part])
    return {}, tree, hub


def dory():
    tree, hub = {}, {}
    both(tree, hub, "model.embed_tokens.weight", "backbone.embeddings.weight")
    both(tree, hub, "model.layers.1.self_attn.gate_proj.weight", "backbone.layers.1.self_attn.g_proj.weight")
    both(tree, hub, "model.layers.1.self_attn.q_proj.weight", "backbone.layers.1.self_attn.q_proj.weight")
    return {}, tree, hub


def jais2():
    tree, hub = {}, {}
    both(tree, hub, "model.layers.1.self_attn.q_proj.weight", "model.layers.1.self_attn.q_proj.weight")
    return {}, tree, hub


for make in (flint, glm5_next, mistral_large4, lara_mini, dory, jais2):
    config, *models = make()
    for kind, tensors in zip(("tree", "hub"), models):
        directory = pathlib.Path(sys.argv[1], make.__name__, kind)
        directory.mkdir(parents=True)
        (directory / "config.json").write_text(json.dumps({"model_type": make.__name__, **config}))
        edit_safetensors.write(str(directory / "model.safetensors"), tensors)

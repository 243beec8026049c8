"""Usage: tied_adapters.py OUT

A small model whose head and embedding are one (OUT/base), adapters for it as peft 0.21 saves them (OUT/CASE), the same in a whole checkpoint of the
live model (OUT/live_CASE), and the models that were trained (OUT/want_CASE). All values are so short that no sum rounds.
"""

import json
import pathlib
import random
import struct
import sys

import edit_safetensors

out = pathlib.Path(sys.argv[1])
values = random.Random(7)
ROWS, WIDTH, RANK, SCALE = 12, 8, 2, 2
EMBED, HEAD, QUERY = "model.embed_tokens", "lm_head", "model.layers.0.self_attn.q_proj"


def matrix(rows, columns):
    return [[values.randint(-16, 16) / 8 for _ in range(columns)] for _ in range(rows)]


def product(b, a):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*a)] for row in b]


def turned(m):
    return [list(column) for column in zip(*m)]


def plus(w, delta):
    return [[x + SCALE * y for x, y in zip(*rows)] for rows in zip(w, delta)]


def stored(m, dtype="F32"):
    data = b"".join(struct.pack("<f", x) for row in m for x in row)
    if dtype == "BF16":
        data = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
    return [dtype, [len(m), len(m[0])] if len(m) > 1 else [len(m[0])], bytearray(data)]


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": 8, "num_hidden_layers": 1,
          "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": ROWS, "rms_norm_eps": 1e-05, "max_position_embeddings": 64,
          "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "float32"}
SHAPES = {"self_attn.q_proj": (8, 8), "self_attn.k_proj": (4, 8), "self_attn.v_proj": (4, 8), "self_attn.o_proj": (8, 8), "mlp.gate_proj": (8, 8),
          "mlp.up_proj": (8, 8), "mlp.down_proj": (8, 8), "input_layernorm": (1, 8), "post_attention_layernorm": (1, 8)}
BASE = {EMBED: matrix(ROWS, WIDTH), "model.norm": matrix(1, WIDTH), **{f"model.layers.0.{name}": matrix(*shape) for name, shape in SHAPES.items()}}


def model(name, weights, tied, dtype="F32"):
    path = out / name
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(CONFIG | {"tie_word_embeddings": tied, "vocab_size": len(weights[EMBED])}))
    edit_safetensors.write(str(path / "model.safetensors"), {f"{n}.weight": stored(w, dtype) for n, w in weights.items()})


def adapter(name, tensors, live, config):
    """`tensors` as save_pretrained names them; `live`: what a whole state has instead of the base's tensors and them."""
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": RANK * SCALE, "bias": "none", "peft_version": "0.21.2"} | config
    prefix = "base_model.model."
    for path, state in ((out / name, tensors), (out / f"live_{name}", live))[:2 if live else 1]:
        settings_path = path if state is tensors else path / "lora_adapter"
        settings_path.mkdir(parents=True)
        (settings_path / "adapter_config.json").write_text(json.dumps(settings))
        file = "adapter_model.safetensors" if state is tensors else "model.safetensors"
        edit_safetensors.write(str(path / file), {prefix + n: t for n, t in state.items()})
        if state is live:
            (path / "config.json").write_text((out / "base/config.json").read_text())


def named(tensors):
    """As in a live model: with the adapter's name."""
    for part in ("lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B"):
        tensors = {n.replace(f".{part}.", f".{part}.default.") if f".{part}." in n else n + ".default" if n.endswith(f".{part}") else n: t
                   for n, t in tensors.items()}
    return tensors


def linear(module, rows, columns):
    a, b = matrix(RANK, columns), matrix(rows, RANK)
    return {f"{module}.lora_A.weight": stored(a), f"{module}.lora_B.weight": stored(b)}, product(b, a)


def live(changed, wrapped=()):
    """The base's tensors as a live model has them: those of wrapped modules under another name."""
    names = {**{n: n for n in BASE}, HEAD: HEAD, **{n: n + ".base_layer" for n in wrapped}}
    return {f"{names[n]}.weight": stored(w) for n, w in (BASE | {HEAD: BASE[EMBED]}).items() if n not in changed}


model("base", BASE, True)
model("base_bf16", BASE, True, "BF16")

# Factors of the embedding alone, of the head alone, of both, and of both tied as one (ensure_weight_tying).
a, b = matrix(RANK, ROWS), matrix(WIDTH, RANK)
embed = {f"{EMBED}.lora_embedding_A": stored(a), f"{EMBED}.lora_embedding_B": stored(b)}
embed_changed = plus(BASE[EMBED], turned(product(b, a)))
head, delta = linear(HEAD, ROWS, WIDTH)
head_changed = plus(BASE[EMBED], delta)
same = {f"{HEAD}.lora_A.weight": stored(turned(b)), f"{HEAD}.lora_B.weight": stored(turned(a))}
before = {f"{EMBED}.base_layer.weight": stored(BASE[EMBED])}
before_head = {f"{HEAD}.base_layer.weight": stored(BASE[EMBED])}
adapter("embed", embed | before, live([], [EMBED]) | named(embed), {"target_modules": ["embed_tokens"]})
model("want_embed", BASE | {EMBED: embed_changed, HEAD: BASE[EMBED]}, False)
adapter("head", head | before_head, live([], [HEAD]) | named(head), {"target_modules": ["lm_head"]})
model("want_head", BASE | {HEAD: head_changed}, False)
adapter("both", embed | head | before | before_head, live([], [EMBED, HEAD]) | named(embed | head), {"target_modules": ["embed_tokens", "lm_head"]})
model("want_both", BASE | {EMBED: embed_changed, HEAD: head_changed}, False)
adapter("tying", embed | same, live([], [EMBED, HEAD]) | named(embed | same), {"target_modules": ["model.embed_tokens"], "ensure_weight_tying": True})
model("want_tying", BASE | {EMBED: embed_changed, HEAD: embed_changed}, False)

# Trained as a whole, beside factors of another module.
query, delta = linear(QUERY, 8, 8)
trained = matrix(ROWS, WIDTH)
folded = BASE | {QUERY: plus(BASE[QUERY], delta)}
for name, module in (("whole_embed", EMBED), ("whole_head", HEAD)):
    state = {f"{module}.original_module.weight": stored(BASE[EMBED]), f"{module}.modules_to_save.default.weight": stored(trained)}
    adapter(name, query | {f"{module}.weight": stored(trained)}, live([module], [QUERY]) | named(query) | state,
            {"target_modules": ["q_proj"], "modules_to_save": [module.split(".")[-1]]})
    model(f"want_{name}", folded | {HEAD: BASE[EMBED]} | {module: trained}, False)

# Two new rows: peft saves head and embedding, the trained one of them thrice.
grown, trained = BASE[EMBED] + matrix(2, WIDTH), matrix(ROWS + 2, WIDTH)
for name, module, other in (("grown_embed", EMBED, HEAD), ("grown_head", HEAD, EMBED)):
    state = {f"{module}.original_module.weight": stored(grown), f"{module}.modules_to_save.weight": stored(trained), f"{module}.weight": stored(trained),
             f"{other}.weight": stored(grown)}
    adapter(name, query | state, {}, {"target_modules": ["q_proj"], "modules_to_save": [module.split(".")[-1]]})
    model(f"want_{name}", folded | {module: trained, other: grown}, False)
adapter("grown", query | {f"{EMBED}.weight": stored(grown), f"{HEAD}.weight": stored(grown)}, {}, {"target_modules": ["q_proj"]})
model("want_grown", folded | {EMBED: grown}, True)

"""Small HuggingFace models of many families: config.json, and every tensor's dtype, shape and bytes, with the names and
shapes that transformers 5 and the families' hub files have. Python's standard library only; knows no training framework.
"""
import random

SIZES = {"BF16": 2, "F32": 4}
h, n, g, d, f, VOCAB, LAYERS = 24, 4, 2, 10, 28, 101, 3
BASE = {"vocab_size": VOCAB, "hidden_size": h, "intermediate_size": f, "num_hidden_layers": LAYERS, "num_attention_heads": n,
        "num_key_value_heads": g, "head_dim": d, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
EXPERTS = {"n_routed_experts": 4, "n_shared_experts": 2, "moe_intermediate_size": 12, "num_nextn_predict_layers": 1}
LATENT = {"q_lora_rank": 12, "kv_lora_rank": 10, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 8, "num_key_value_heads": 4}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 6,
         "linear_conv_kernel_dim": 3, "num_hidden_layers": 4, "full_attention_interval": 4}
CONFIGS = {
    "llada": {"head_dim": h // n},
    "phi3": {},
    "gemma2": {"tie_word_embeddings": True},
    "gemma3_text": {"tie_word_embeddings": True},
    "glm": {"attention_bias": True},
    "glm4": {"attention_bias": True},
    "glm4_moe": {**EXPERTS, "first_k_dense_replace": 1, "use_qk_norm": True, "attention_bias": True},
    "glm4_moe_lite": {**EXPERTS, **LATENT, "mlp_layer_types": ["dense", "sparse", "sparse"]},
    "qwen3_next": {**DELTA, "attention_bias": True, "num_experts": 4, "moe_intermediate_size": 12, "shared_expert_intermediate_size": 16},
    "qwen3_5_text": {**DELTA, "mtp_num_hidden_layers": 1},
    "exaone4": {},
    "nemotron": {},
}
GEMMA = ("gemma2", "gemma3_text")
GATED = ("qwen3_next", "qwen3_5_text")
ZERO_CENTRED = (*GEMMA, *GATED, "nemotron")
INTERLEAVED = ("glm", "glm4")


def config_of(family):
    if family == "gpt2":
        return {"model_type": family, "vocab_size": VOCAB, "n_embd": h, "n_head": n, "n_layer": LAYERS, "n_positions": 20, "torch_dtype": "bfloat16"}
    config = {"model_type": family, "architectures": ["ForCausalLM"], **BASE, **CONFIGS[family]}
    if "kv_lora_rank" in config:
        del config["head_dim"]
    return config


def is_full(config, layer):
    """Whether a layer attends; the others of Qwen3-Next and Qwen3.5 are gated delta nets. MTP layers attend."""
    every = config.get("full_attention_interval", 1)
    return layer >= config["num_hidden_layers"] or (layer + 1) % every == 0


def is_dense(config, layer):
    if "n_routed_experts" in config:
        return layer < 1
    return "num_experts" not in config


def delta_net(config):
    nk, nv, dk, dv = (config["linear_" + key] for key in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim"))
    qk, v = 2 * nk * dk, nv * dv
    parts = {"in_proj_qkvz.weight": (qk + 2 * v, h), "in_proj_ba.weight": (2 * nv, h)}
    if config["model_type"] == "qwen3_5_text":
        parts = {"in_proj_qkv.weight": (qk + v, h), "in_proj_z.weight": (v, h), "in_proj_b.weight": (nv, h), "in_proj_a.weight": (nv, h)}
    parts |= {"conv1d.weight": (qk + v, 1, config["linear_conv_kernel_dim"]), "A_log": (nv,), "dt_bias": (nv,), "norm.weight": (dv,),
              "out_proj.weight": (h, v)}
    return {"linear_attn." + name: shape for name, shape in parts.items()}


def latent_attention(config):
    rope, nope, v = (config[key] for key in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"))
    q, kv = config["q_lora_rank"], config["kv_lora_rank"]
    return {"self_attn." + name + ".weight": shape for name, shape in {
        "q_a_proj": (q, h), "q_a_layernorm": (q,), "q_b_proj": (n * (nope + rope), q), "kv_a_proj_with_mqa": (kv + rope, h),
        "kv_a_layernorm": (kv,), "kv_b_proj": (n * (nope + v), kv), "o_proj": (h, n * v)}.items()}


def attention(config, layer):
    family = config["model_type"]
    if not is_full(config, layer):
        return delta_net(config)
    if "kv_lora_rank" in config:
        return latent_attention(config)
    d = config["head_dim"]
    rows = {"q": n * d * (2 if family in GATED else 1), "k": g * d, "v": g * d}
    parts = {name + "_proj.weight": (count, h) for name, count in rows.items()}
    if config.get("attention_bias"):
        parts |= {name + "_proj.bias": (count,) for name, count in rows.items()}
        parts |= {"o_proj.bias": (h,)} if family in GATED else {}
    if family == "phi3":
        parts = {"qkv_proj.weight": (sum(rows.values()), h)}
    if family in (*GATED, "gemma3_text", "glm4_moe", "exaone4"):
        parts |= {"q_norm.weight": (d,), "k_norm.weight": (d,)}
    return {"self_attn." + name: shape for name, shape in parts.items()} | {"self_attn.o_proj.weight": (h, n * d)}


def gated(prefix, width):
    return {prefix + "gate_proj.weight": (width, h), prefix + "up_proj.weight": (width, h), prefix + "down_proj.weight": (h, width)}


def feed_forward(config, layer):
    family = config["model_type"]
    if family == "nemotron":
        return {"mlp.up_proj.weight": (f, h), "mlp.down_proj.weight": (h, f)}
    if family in ("phi3", "glm", "glm4"):
        return {"mlp.gate_up_proj.weight": (2 * f, h), "mlp.down_proj.weight": (h, f)}
    if is_dense(config, layer):
        return gated("mlp.", f)
    parts = {"mlp.gate.weight": (4, h)}
    for expert in range(4):
        parts |= gated(f"mlp.experts.{expert}.", config["moe_intermediate_size"])
    if family == "qwen3_next":
        return parts | gated("mlp.shared_expert.", config["shared_expert_intermediate_size"]) | {"mlp.shared_expert_gate.weight": (1, h)}
    return parts | gated("mlp.shared_experts.", config["n_shared_experts"] * config["moe_intermediate_size"]) | {
        "mlp.gate.e_score_correction_bias": (4,)}


def norms(family):
    names = ["input_layernorm", "post_attention_layernorm"]
    if family in GEMMA:
        names += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    if family == "glm4":
        names += ["post_self_attn_layernorm", "post_mlp_layernorm"]
    if family == "exaone4":
        names = ["post_attention_layernorm", "post_feedforward_layernorm"]
    return {name + leaf: (h,) for name in names for leaf in (".weight", *([".bias"] if family == "nemotron" else []))}


def layer_of(config, layer):
    return norms(config["model_type"]) | attention(config, layer) | feed_forward(config, layer)


def extra_layer(config, layers):
    """Multi-token prediction: the prefix of its layer, and the names of its other four tensors."""
    if config["model_type"] in GATED:
        return "mtp.layers.0.", {"enorm": "mtp.pre_fc_norm_embedding", "hnorm": "mtp.pre_fc_norm_hidden", "eh_proj": "mtp.fc",
                                 "final_layernorm": "mtp.norm"}
    prefix = f"model.layers.{layers}."
    return prefix, {"enorm": prefix + "enorm", "hnorm": prefix + "hnorm", "eh_proj": prefix + "eh_proj",
                    "final_layernorm": prefix + "shared_head.norm"}


def has_extra_layer(config):
    return config["model_type"] in GATED or "num_nextn_predict_layers" in config


def gpt2_shapes():
    shapes = {"transformer.wte.weight": (VOCAB, h), "transformer.wpe.weight": (20, h), "transformer.ln_f.weight": (h,), "transformer.ln_f.bias": (h,)}
    matrices = {"attn.c_attn": (h, 3 * h), "attn.c_proj": (h, h), "mlp.c_fc": (h, 4 * h), "mlp.c_proj": (4 * h, h)}
    for layer in range(LAYERS):
        prefix = f"transformer.h.{layer}."
        shapes |= {prefix + name + ".weight": shape for name, shape in matrices.items()}
        shapes |= {prefix + name + ".bias": shape[1:] for name, shape in matrices.items()}
        shapes |= {f"{prefix}{name}.{leaf}": (h,) for name in ("ln_1", "ln_2") for leaf in ("weight", "bias")}
    return shapes


def shapes_of(config):
    if config["model_type"] == "gpt2":
        return gpt2_shapes()
    layers = config["num_hidden_layers"]
    shapes = {"model.embed_tokens.weight": (VOCAB, h), "model.norm.weight": (h,)}
    if config["model_type"] == "nemotron":
        shapes["model.norm.bias"] = (h,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (VOCAB, h)
    for layer in range(layers):
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in layer_of(config, layer).items()}
    if has_extra_layer(config):
        prefix, others = extra_layer(config, layers)
        shapes |= {prefix + name: shape for name, shape in layer_of(config, layers).items()}
        shapes |= {name + ".weight": (h, 2 * h) if key == "eh_proj" else (h,) for key, name in others.items()}
    return shapes


LLADA = {"model.layers.": "model.transformer.blocks.", "model.embed_tokens.": "model.transformer.wte.", "model.norm.": "model.transformer.ln_f.",
         "lm_head.": "model.transformer.ff_out.", ".input_layernorm.": ".attn_norm.", ".post_attention_layernorm.": ".ff_norm.", ".self_attn.o_proj.": ".attn_out.",
         ".self_attn.": ".", ".mlp.gate_proj.": ".ff_proj.", ".mlp.up_proj.": ".up_proj.", ".mlp.down_proj.": ".ff_out."}
LLADA_FIELDS = {"d_model": "hidden_size", "n_heads": "num_attention_heads", "n_kv_heads": "num_key_value_heads", "n_layers": "num_hidden_layers",
                "mlp_hidden_size": "intermediate_size", "embedding_size": "vocab_size", "weight_tying": "tie_word_embeddings"}


def on_the_hub(config, tensors):
    """A model whose tensors are Llama's, with the fields and names that its own code has."""
    if config["model_type"] != "llada":
        return config, tensors
    renamed = {}
    for name, tensor in tensors.items():
        for inner, outer in LLADA.items():
            name = name.replace(inner, outer)
        renamed[name] = tensor
    return {"model_type": "llada", **{field: config[inner] for field, inner in LLADA_FIELDS.items()}}, renamed


def model_of(family):
    """config.json's fields, and {name: (dtype, shape, bytes)}: numbers between 2^-8 and 8 of either sign, other ones in each tensor."""
    config = config_of(family)
    tensors = {}
    for name, shape in shapes_of(config).items():
        dtype = "F32" if name.endswith("e_score_correction_bias") else "BF16"
        count = 1
        for extent in shape:
            count *= extent
        source = random.Random(family + name)
        data = b"".join(source.randbytes(SIZES[dtype] - 1) + bytes([source.choice((0x3c, 0x3f, 0x40, 0xbc, 0xbf, 0xc0))]) for _ in range(count))
        tensors[name] = (dtype, shape, data)
    return config, tensors

#!/usr/bin/env python3
"""Writes a HuggingFace model as torch.distributed.checkpoint would store Megatron's fsdp_dtensor, with Python's standard library only:
layers one by one, gate and up apart, rows cut into uneven chunks over several files.

    write_megatron.py MODEL-DIR CONFIG OUT [OPTION=VALUE..]
    in_front=TEXT   before each key (default model.module.)
    language=TEXT   before each key of the language model, behind in_front
    hub=TEXT        what the language model's names begin with on the hub (default model.)
    tower=qwen|qwen2_5|exaone4_5|internvl|omni   a vision tower of Megatron's own layers
    experts=te|sequential|sequential_experts   how the keys of experts are spelled (default te)
    wrapped=TEXT    between linear layers and `weight`, such as to_wrap.
    adapter=yes     one more tensor, of an adapter

Knows the names and the order of rows (query, key and value rows by groups), from megatron-core's source; knows nothing of shardweld.
"""
import json
import os
import pickle
import sys
import types

import edit_safetensors

N_FILES = 3
SIZES = {"BF16": 2, "F32": 4}
TORCH_NAMES = {"BF16": "bfloat16", "F32": "float32"}


def by_groups(parts, groups):
    """The rows of query, key and value, group by group."""
    data = b""
    for group in range(groups):
        for _, _, rows in parts:
            size = len(rows) // groups
            data += rows[group * size:(group + 1) * size]
    return parts[0][0], [sum(shape[0] for _, shape, _ in parts), *parts[0][1][1:]], data


def expert_key(spelling, expert, layer, kind, part):
    if spelling == "te":
        return f"mlp.experts.{layer}.{kind}{expert}{part}"
    return f"mlp.experts.{ {'sequential': 'local_experts', 'sequential_experts': 'experts'}[spelling] }.{expert}.{layer}.{kind}{part}"


LAYER = {"input_layernorm.weight": "self_attention.linear_qkv.layer_norm_weight",
         "self_attn.o_proj.weight": "self_attention.linear_proj.{wrapped}weight",
         "self_attn.q_norm.weight": "self_attention.q_layernorm.weight",
         "self_attn.k_norm.weight": "self_attention.k_layernorm.weight",
         "mlp.gate.weight": "mlp.router.weight",
         "mlp.gate_proj.weight": "mlp.linear_fc1.{wrapped}weight_w",
         "mlp.up_proj.weight": "mlp.linear_fc1.{wrapped}weight_v",
         "mlp.down_proj.weight": "mlp.linear_fc2.{wrapped}weight"}
WHOLE = {"model.embed_tokens.weight": "embedding.word_embeddings.weight", "model.norm.weight": "decoder.final_layernorm.weight",
         "lm_head.weight": "output_layer.weight"}
EXPERT = {"gate_proj.weight": ("linear_fc1", "_w"), "up_proj.weight": ("linear_fc1", "_v"), "down_proj.weight": ("linear_fc2", "")}


def layer_key(rest, is_moe, options):
    if rest == "post_feedforward_layernorm.weight":
        return "mlp.linear_fc2.post_layernorm.weight"
    if rest == "post_attention_layernorm.weight" and options["post_norms"]:
        return "self_attention.linear_proj.post_layernorm.weight"
    if rest == "post_attention_layernorm.weight":
        return "pre_mlp_layernorm.weight" if is_moe else "mlp.linear_fc1.layer_norm_weight"
    parts = rest.split(".")
    if parts[:2] == ["mlp", "experts"]:
        layer, part = EXPERT[".".join(parts[3:])]
        return expert_key(options["experts"], parts[2], layer, "weight", part)
    return LAYER[rest].format(wrapped=options["wrapped"])


LAYERS = {"norm1.": "self_attention.linear_qkv.layer_norm_", "norm2.": "mlp.linear_fc1.layer_norm_", "attn.qkv.": "self_attention.linear_qkv.",
          "attn.proj.": "self_attention.linear_proj.", "mlp.fc": "mlp.linear_fc", "mlp.gate_proj.": "mlp.linear_fc1.",
          "mlp.down_proj.": "mlp.linear_fc2.", "mlp.": "mlp.", "ls": "ls"}
# By option: what names of the tower's layers begin with, and of its other tensors what Megatron has for it (qwen3_vl_bridge.py of Megatron-Bridge,
# internvl3 and qwen2_5_vl of mbridge).
TOWERS = {"qwen": ("model.visual.blocks.", {"model.visual.merger.norm.": "vision_model.merger.patch_norm.",
                                            "model.visual.deepstack_merger_list.": "vision_model.decoder.deepstack_merger_list.",
                                            "model.visual.": "vision_model."}),
          "qwen2_5": ("visual.blocks.", {"visual.merger.ln_q.": "vision_model.decoder.final_layernorm.",
                                         "visual.merger.mlp.0.": "vision_model.projection.encoder.linear_fc1.",
                                         "visual.merger.mlp.2.": "vision_model.projection.encoder.linear_fc2.", "visual.": "vision_model."}),
          "exaone4_5": ("model.visual.blocks.", {"model.visual.merger.ln_q.": "vision_model.merger.patch_norm.",
                                                 "model.visual.merger.mlp.0.": "vision_model.merger.linear_fc1.",
                                                 "model.visual.merger.mlp.2.": "vision_model.merger.linear_fc2.", "model.visual.": "vision_model."}),
          "omni": ("thinker.visual.blocks.", {"thinker.visual.merger_list.": "vision_model.decoder.deepstack_merger_list.",
                                              "thinker.visual.": "vision_model.", "thinker.audio_tower.": "audio_model."}),
          "internvl": ("vision_model.encoder.layers.", {"mlp1.0.": "vision_projection.encoder.linear_fc1.layer_norm_",
                                                        "mlp1.1.": "vision_projection.encoder.linear_fc1.", "mlp1.3.": "vision_projection.encoder.linear_fc2.",
                                                        "vision_model.embeddings.class_embedding": "vision_model.class_token",
                                                        "vision_model.embeddings.position_embedding": "vision_model.position_embedding",
                                                        "vision_model.embeddings.patch_embedding.": "vision_model.conv1."})}


def tower_tensor(name, tensor, tower, config):
    """Name and tensor as Megatron has them."""
    layers, others = TOWERS[tower]
    if name.startswith(layers):
        number, rest = name.removeprefix(layers).split(".", 1)
        begin = next(begin for begin in LAYERS if rest.startswith(begin))
        if begin == "attn.qkv.":
            dtype, (rows, *columns), data = tensor
            tower = config["vision_config"]
            heads = tower.get("num_heads") or tower["num_attention_heads"]
            groups = tower.get("num_key_value_heads", heads)
            extents = [rows * part // (heads + 2 * groups) for part in (heads, groups, groups)]
            ends = [sum(extents[:at]) * len(data) // rows for at in range(4)]
            tensor = by_groups([(dtype, [extents[at], *columns], data[ends[at]:ends[at + 1]]) for at in range(3)], groups)
        return f"vision_model.decoder.layers.{number}.{LAYERS[begin]}{rest.removeprefix(begin)}", tensor
    begin = next((begin for begin in others if name.startswith(begin)), "")
    renamed = others[begin] + name.removeprefix(begin) if begin else name
    for ours, theirs in ((".norm.", ".patch_norm."), (".ln_q.", ".patch_norm."), (".mlp.0.", ".linear_fc1."), (".mlp.2.", ".linear_fc2.")):
        renamed = renamed.replace(ours, theirs)
    return renamed, tensor


def renamed(model, config, options):
    config = config.get("thinker_config", config)
    begin, head = options["hub"], options["hub"].removesuffix("model.") + "lm_head."
    model = {"model." + name.removeprefix(begin) if name.startswith(begin) else
             "lm_head." + name.removeprefix(head) if name.startswith(head) else name: tensor for name, tensor in model.items()}
    groups = config.get("text_config", config)["num_key_value_heads"]
    is_moe = any(".mlp.experts." in name for name in model)
    options["post_norms"] = any(".post_feedforward_layernorm." in name for name in model)
    stored = {}
    for name, tensor in model.items():
        if name in WHOLE:
            stored[options["language"] + WHOLE[name]] = tensor
        elif name.startswith("model.layers."):
            number, rest = name.removeprefix("model.layers.").split(".", 1)
            at = f"{options['language']}decoder.layers.{number}."
            if rest.split(".")[1] in ("q_proj", "k_proj", "v_proj"):
                kind = rest.split(".")[2]
                parts = [model[f"model.layers.{number}.self_attn.{part}_proj.{kind}"] for part in "qkv"]
                stored[f"{at}self_attention.linear_qkv.{options['wrapped']}{kind}"] = by_groups(parts, groups)
            else:
                stored[at + layer_key(rest, is_moe, options)] = tensor
        elif options["tower"] and ".mlp.up_proj." in name:
            continue  # behind gate_proj
        elif options["tower"]:
            if ".mlp.gate_proj." in name:
                (dtype, (rows, *columns), gate), (_, _, up) = tensor, model[name.replace("gate_proj", "up_proj")]
                tensor = dtype, [2 * rows, *columns], gate + up
            at, tensor = tower_tensor(name, tensor, options["tower"], config)
            stored[at] = tensor
        else:
            stored[name] = tensor
    if options["adapter"]:
        stored["decoder.layers.0.self_attention.linear_qkv.adapter.linear_in.weight"] = ("BF16", [1, 64], bytes(128))
    return {options["in_front"] + name: tensor for name, tensor in stored.items()}


def cut(rows, number):
    """Where chunks begin and end: uneven, and none for the last files when there are few rows."""
    if rows < 4 or number % 3 == 0:
        return [(number % N_FILES, 0, rows)]
    first, second = rows // 2 + 1, rows // 2 + 1 + rows // 5
    bounds = [(0, first), (first, second), (second, rows)]
    return [(file, begin, end) for file, (begin, end) in enumerate(bounds) if begin < end]


def classes():
    """Classes of the names that pickle is to write."""
    def module(name, **members):
        made = types.ModuleType(name)
        sys.modules[name] = made
        for key, value in members.items():
            setattr(made, key, value)
            value.__module__ = name
        return made

    def plain(name, base=object):
        return type(name, (base,), {"__qualname__": name})

    class DType:
        def __init__(self, name):
            self.name = name

        def __reduce__(self):
            return self.name

    class Size(tuple):
        __qualname__ = "Size"

        def __reduce__(self):
            return Size, (tuple(self),)

    names = ["Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "TensorProperties", "MetadataIndex"]
    module("torch", Size=Size, bfloat16=DType("bfloat16"), float32=DType("float32"))
    for name in ("torch.distributed", "torch.distributed.checkpoint"):
        module(name)
    return (module("torch.distributed.checkpoint.metadata", **{name: plain(name) for name in names}),
            module("torch.distributed.checkpoint.filesystem", _StorageInfo=plain("_StorageInfo")), sys.modules["torch"])


def made(kind, **attributes):
    instance = kind()
    instance.__dict__.update(attributes)
    return instance


def write(stored, out):
    dcp, files, torch = classes()
    os.makedirs(out)
    entries, parts = {}, [{} for _ in range(N_FILES)]
    places = []
    for number, (name, (dtype, shape, data)) in enumerate(stored.items()):
        row = len(data) // shape[0]
        chunks = []
        for file, begin, end in cut(shape[0], number):
            parts[file][name] = (dtype, [end - begin, *shape[1:]], data[begin * row:end * row])
            offset = torch.Size([begin] + [0] * (len(shape) - 1))
            chunks.append(made(dcp.ChunkStorageMetadata, offsets=offset, sizes=torch.Size([end - begin, *shape[1:]])))
            places.append((made(dcp.MetadataIndex, fqn=name, offset=offset, index=None), file))
        properties = made(dcp.TensorProperties, dtype=getattr(torch, TORCH_NAMES[dtype]))
        entries[name] = made(dcp.TensorStorageMetadata, properties=properties, size=torch.Size(shape), chunks=chunks)
    for file, tensors in enumerate(parts):
        edit_safetensors.write(os.path.join(out, f"__{file}_0.distcp"), tensors)
    storage = {index: made(files._StorageInfo, relative_path=f"__{file}_0.distcp", offset=0, transform_descriptors=None,
                           length=os.path.getsize(os.path.join(out, f"__{file}_0.distcp"))) for index, file in places}
    metadata = made(dcp.Metadata, state_dict_metadata=entries, planner_data=None, storage_data=storage)
    with open(os.path.join(out, ".metadata"), "wb") as file:
        pickle.dump(metadata, file, protocol=4)


def main():
    options = {"in_front": "model.module.", "language": "", "experts": "te", "wrapped": "", "adapter": "", "hub": "model.", "tower": ""}
    options.update(option.split("=", 1) for option in sys.argv[4:])
    with open(sys.argv[2], encoding="utf-8") as file:
        config = json.load(file)
    write(renamed(edit_safetensors.read(os.path.join(sys.argv[1], "model.safetensors")), config, options), sys.argv[3])


if __name__ == "__main__":
    main()

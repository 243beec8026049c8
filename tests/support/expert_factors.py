"""expert_factors.py MOE OUT PAIRS [shared]: Megatron's form of a model with experts, with factors that have an axis of experts, as Megatron-Bridge's keys have
them, in OUT; in PAIRS what PEFT has of it, a pair for each expert. `shared`: A of the first and B of the second layer are one for all experts."""
import json
import os
import struct
import sys

import edit_safetensors
import write_megatron

moe, out, pairs, shared = [*sys.argv[1:], ""][:4]
config = json.load(open(moe + "/hf/config.json"))
layers, experts, h, f, r = config["num_hidden_layers"], config["num_local_experts"], config["hidden_size"], config["moe_intermediate_size"], 2
options = {"in_front": "", "language": "", "experts": "te", "wrapped": "", "adapter": "", "hub": "model.", "tower": ""}
stored = write_megatron.renamed(edit_safetensors.read(moe + "/expected/model.safetensors"), config, options)
counter = iter(range(1, 10**9))

def values(n):
    return b"".join(struct.pack("<f", (next(counter) % 97 - 48) / 64) for _ in range(n))

expected = {}
for kind, n_in, n_out, names in (("linear_fc1", h, 2 * f, ("gate_proj", "up_proj")), ("linear_fc2", f, h, ("down_proj",))):
    for layer in range(layers):
        a, b = values(experts * r * n_in), values(experts * n_out * r)
        each_a, each_b = [experts], [experts]
        if shared and kind == "linear_fc1":
            each_a, a = [], a[:r * n_in * 4] * experts
        elif shared:
            each_b, b = [], b[:n_out * r * 4] * experts
        at = f"decoder.layers.{layer}.mlp.experts.experts.{kind}.adapter."
        stored[at + "linear_in.weight"] = ("F32", [*each_a, r, n_in], a if each_a else a[:r * n_in * 4])
        stored[at + "linear_out.weight"] = ("F32", [*each_b, n_out, r], b if each_b else b[:n_out * r * 4])
        for e in range(experts):
            rows = n_out // len(names)
            for part, name in enumerate(names):
                key = f"base_model.model.model.layers.{layer}.mlp.experts.{e}.{name}.lora_"
                begin = (e * n_out + part * rows) * r * 4
                expected[key + "A.weight"] = ["F32", [r, n_in], a[e * r * n_in * 4:(e + 1) * r * n_in * 4]]
                expected[key + "B.weight"] = ["F32", [rows, r], b[begin:begin + rows * r * 4]]
write_megatron.write(stored, out)
os.makedirs(pairs)
edit_safetensors.write(pairs + "/adapter_model.safetensors", expected)
json.dump({"peft_type": "LORA", "r": r, "lora_alpha": 4, "target_modules": "all-linear"}, open(pairs + "/adapter_config.json", "w"))

"""bf16_adapters.py MODEL OUT: adapters whose sums with a bf16 model are rounded once, `rounded` and `untrained_dora` in OUT, each with its folded
model OUT/NAME.wanted.safetensors."""
import json
import os
import struct
import sys

from edit_safetensors import read, write

base, work = read(sys.argv[1] + "/model.safetensors"), sys.argv[2]
name, n = "model.layers.0.self_attn.q_proj", 8
bits = lambda x: struct.unpack("<I", struct.pack("<f", x))[0]
def bf16(x):
    at = bits(x)
    return (at + 0x7FFF + (at >> 16 & 1)) >> 16
value = lambda half: struct.unpack("<f", struct.pack("<I", half << 16))[0]
halves = struct.unpack(f"<{n * n}H", bytes(base[name + ".weight"][2]))
rows = [[value(h) for h in halves[i * n:(i + 1) * n]] for i in range(n)]
floats = lambda shape, data: ["F32", shape, bytearray(struct.pack(f"<{len(data)}f", *data))]
def adapter(case, b, magnitudes, wanted):
    tensors = {f"base_model.model.{name}.lora_A.weight": floats([1, n], [1.0] * n), f"base_model.model.{name}.lora_B.weight": floats([n, 1], b)}
    if magnitudes:
        tensors[f"base_model.model.{name}.lora_magnitude_vector"] = floats([n], magnitudes)
    os.makedirs(f"{work}/{case}")
    write(f"{work}/{case}/adapter_model.safetensors", tensors)
    config = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"], "use_dora": bool(magnitudes)}
    json.dump(config, open(f"{work}/{case}/adapter_config.json", "w"))
    model = dict(base)
    model[name + ".weight"] = ["BF16", [n, n], bytearray(struct.pack(f"<{n * n}H", *[bf16(x) for row in wanted for x in row]))]
    assert model[name + ".weight"][2] != base[name + ".weight"][2]
    write(f"{work}/{case}.wanted.safetensors", model)
x = 2**-8 + 2**-18
assert any(bf16(w + x) != bf16(w + value(bf16(x))) for row in rows for w in row)
adapter("rounded", [x] * n, None, [[w + x for w in row] for row in rows])
norms = [sum(w * w for w in row) ** 0.5 for row in rows]
stored = [value(bf16(norm)) for norm in norms]
adapter("untrained_dora", [0.0] * n, stored, [[w * m / norm for w in row] for row, m, norm in zip(rows, stored, norms)])

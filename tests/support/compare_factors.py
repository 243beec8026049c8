"""compare_factors.py ADAPTER rows EXPECTED: factors B of gate and up are EXPECTED's, whose rows lay by four ranks. compare_factors.py ADAPTER modules
NAME..: its modules are below these. compare_factors.py MODEL embedding BASE: the head is BASE's embedding, and its own embedding another."""
import os
import sys

from edit_safetensors import read


def tensors(path):
    return read(os.path.join(path, "adapter_model.safetensors" if os.path.exists(os.path.join(path, "adapter_model.safetensors")) else "model.safetensors"))


path, what, *others = sys.argv[1:]
got = tensors(path)
if what == "rows":
    stored = tensors(others[0])
    gates = [name for name in stored if name.endswith("gate_proj.lora_B.weight")]
    assert gates
    for gate in gates:
        up = gate.replace("gate_proj", "up_proj")
        rows = bytes(stored[gate][2] + stored[up][2])
        size = len(rows) // 8
        parts = [rows[i * size:(i + 1) * size] for i in range(8)]
        assert got[gate][2] == b"".join(parts[0::2]) and got[up][2] == b"".join(parts[1::2]), gate
elif what == "modules":
    begins = {".".join(name.split(".")[:5]) for name in got}
    assert begins == set(others), begins
else:
    base = tensors(others[0])
    embedding = base["transformer.wte.weight"][2]
    assert got["lm_head.weight"][2] == embedding and got["transformer.wte.weight"][2] != embedding

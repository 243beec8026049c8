"""Rewrites a PEFT directory's adapter .
other_factors.py grouped ADAPTER N: the factors of N experts as NeMo Automodel has them in one tensor each.
other_factors.py rows ADAPTER MODEL OUT: adds rows of the embedding for two tokens, 7 and 3; OUT is MODEL with them."""
import array
import glob
import os
import shutil
import sys

from edit_safetensors import read, write

what, adapter, *others = sys.argv[1:]
path = os.path.join(adapter, "adapter_model.safetensors")
factors = read(path)
if what == "grouped":
    n = int(others[0])
    for name in [name for name in factors if ".experts." in name]:
        _, shape, data = factors.pop(name)
        stem, _, end = name.rpartition("lora_")
        rank, stored = shape["AB".index(end[0])] // n, array.array("f", bytes(data))
        made = array.array("f")
        for expert in range(n):
            if end[0] == "A":  # [experts * rank, in] -> [experts, in, rank]
                made.extend(stored[(expert * rank + k) * shape[1] + i] for i in range(shape[1]) for k in range(rank))
            else:  # [out, rank * experts] -> [experts, rank, out]
                made.extend(stored[o * shape[1] + k * n + expert] for k in range(rank) for o in range(shape[0]))
        inside = stem.endswith("base_layer.")
        key = stem[:-len("base_layer.")] + "lora_gate_and_up_" if inside else stem + "lora_down_"
        factors[key + end[0]] = ["F32", [n, shape[1], rank] if end[0] == "A" else [n, rank, shape[0]], made.tobytes()]
else:
    model, out = others
    shutil.copytree(model, out)
    changed = next(file for file in glob.glob(out + "/*.safetensors") if "model.embed_tokens.weight" in read(file))
    tensors = read(changed)
    dtype, (n_rows, n_cols), data = tensors["model.embed_tokens.weight"]
    rows = array.array("f", ((i * 5 % 23 - 11) / 8 for i in range(2 * n_cols))).tobytes()
    factors["base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"] = ["F32", [2, n_cols], rows]
    data, size = bytearray(data), 4 * n_cols
    for at, token in enumerate((7, 3)):
        data[token * size:(token + 1) * size] = rows[at * size:(at + 1) * size]
    tensors["model.embed_tokens.weight"] = [dtype, [n_rows, n_cols], data]
    write(changed, tensors)
write(path, factors)

#!/usr/bin/env python3
"""The arithmetic of averages and deltas by Python's own rounding.

mix_models.py check RESULT KIND FACTORS MODEL...
    Compares the model directory RESULT byte for byte with the mix of the others. KIND: average (FACTORS: one for each, as "0.2,0.8";
    "" for all the same; divided by their sum; "decay=X") or delta (the first model is the base, FACTORS are of the others). Every product, difference and
    sum is rounded to fp32, the last sum once to the dtype that RESULT has.
mix_models.py vary MODEL OUT DTYPE SEED
    Writes MODEL's floats, changed a little, as DTYPE (F32, F16 or BF16); its config and other files stay. SEED 0 changes nothing.
"""
import json
import os
import random
import shutil
import struct
import sys

import edit_safetensors

CODES = {"F32": "f", "F16": "e", "F64": "d"}


def floats(dtype, data):
    if dtype == "BF16":
        words = struct.unpack(f"<{len(data) // 2}H", data)
        data = struct.pack(f"<{len(words)}I", *[word << 16 for word in words])
        dtype = "F32"
    code = CODES[dtype]
    return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


def fp32(values):
    """Rounded to nearest even; a double holds product and sum of two fp32 values exactly enough."""
    return struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values))


def packed(dtype, values):
    if dtype != "BF16":
        return struct.pack(f"<{len(values)}{CODES[dtype]}", *values)
    words = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
    return struct.pack(f"<{len(words)}H", *[(word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in words])


def normalised(weights):
    total = 0.0
    for weight in weights:
        total += weight
    return weights if abs(total - 1) <= 1e-12 else [weight / total for weight in weights]


def factors_of(kind, text, count):
    if text.startswith("decay="):
        powers = [float(text[6:]) ** (count - 1 - k) for k in range(count)]
        return fp32([power / sum(powers) for power in powers])
    numbers = [float(number) for number in text.split(",")] if text else [1 / count]
    if kind == "average" and text:
        numbers = normalised(numbers)
    return fp32(numbers * count if len(numbers) == 1 else numbers)


def mixed(kind, factors, parts):
    base = fp32(parts[0])
    if kind == "average":
        total = fp32([factors[0] * x for x in base])
    else:
        total, factors = base, (1.0, *factors)
    for factor, part in zip(factors[1:], parts[1:]):
        part = fp32(part)
        if kind == "delta":
            part = fp32([x - b for x, b in zip(part, base)])
        total = fp32([a + p for a, p in zip(total, fp32([factor * x for x in part]))])
    return total


def check(result, kind, factors, *models):
    got = edit_safetensors.read(result)
    sides = [edit_safetensors.read(model) for model in models]
    assert all(side.keys() == got.keys() for side in sides), "other names"
    factors = factors_of(kind, factors, len(models) - (kind == "delta"))
    for name, (dtype, shape, data) in got.items():
        parts = [side[name] for side in sides]
        assert all(part[1] == shape for part in parts), f"{name}: another shape"
        if dtype in ("F32", "F16", "BF16"):
            expected = packed(dtype, mixed(kind, factors, [floats(part[0], part[2]) for part in parts]))
        else:
            expected = parts[0][2]
        assert data == expected, f"{name} differs"
    assert len(got) > 5, "too few tensors"


def vary(model, out, dtype, seed):
    shutil.copytree(model, out)
    for name in os.listdir(out):
        if name.endswith((".safetensors", ".safetensors.index.json")):
            os.remove(os.path.join(out, name))
    chance = random.Random(seed)
    header, data = {}, b""
    for name, (own, shape, raw) in edit_safetensors.read(model).items():
        if own in ("F32", "F16", "BF16"):
            values = floats(own, raw)
            if seed != "0":
                values = [value + chance.gauss(0, 0.05) for value in values]
            own, raw = dtype, packed(dtype, values)
        header[name] = {"dtype": own, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(out, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


try:
    {"check": check, "vary": vary}[sys.argv[1]](*sys.argv[2:])
except AssertionError as error:
    sys.exit(f"mix_models: {error}")

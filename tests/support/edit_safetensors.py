#!/usr/bin/env python3
"""Changes one thing in a safetensors file, with Python's standard library only; the file stays sound.

    edit_safetensors.py FILE ACTION [arguments]
    make NAME DTYPE COUNT..   a new file with one-dimensional tensors that count 0, 1, 2, ... modulo 251
    flip NAME BYTE MASK       exclusive or of one byte
    put NAME ELEMENT HEX      an element's bytes
    drop NAME, copy NAME NEW, reshape NAME EXTENTS, widen (all BF16 to F32)
    rename PATTERN NEW        names in which the regular expression matches
    drop_all PATTERN          such tensors
    ones NAME EXTENTS         a new tensor of fp32 ones
    fill PATTERN HEX PART     such tensors with this element from a part of them on (0: whole, 0.25: all but the first quarter)
"""
import json
import math
import os
import re
import struct
import sys

SIZES = {"I64": 8, "F32": 4, "BF16": 2}


def number(dtype, value):
    if dtype == "I64":
        return struct.pack("<q", value)
    packed = struct.pack("<f", value)
    return packed if dtype == "F32" else packed[2:]


def read(path):
    """[dtype, shape, bytes] of each tensor by its name: of a file, or of all in a directory."""
    if os.path.isdir(path):
        files = sorted(name for name in os.listdir(path) if name.endswith(".safetensors"))
        return {name: tensor for file in files for name, tensor in read(os.path.join(path, file)).items()}
    if not os.path.exists(path):
        return {}
    with open(path, "rb") as file:
        blob = file.read()
    (length,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8:8 + length])
    header.pop("__metadata__", None)
    data = blob[8 + length:]
    return {name: [entry["dtype"], entry["shape"], bytearray(data[slice(*entry["data_offsets"])])] for name, entry in header.items()}


def write(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(bytes(data) for _, _, data in tensors.values()))


def edit(tensors, action, arguments):
    if action == "make":
        for name, dtype, count in zip(*[iter(arguments)] * 3):
            values = b"".join(number(dtype, i) for i in range(251))
            size = int(count) * SIZES[dtype]
            tensors[name] = [dtype, [int(count)], bytearray((values * (size // len(values) + 1))[:size])]
    elif action == "flip":
        tensors[arguments[0]][2][int(arguments[1])] ^= int(arguments[2])
    elif action == "put":
        value = bytes.fromhex(arguments[2])
        at = int(arguments[1]) * len(value)
        tensors[arguments[0]][2][at:at + len(value)] = value
    elif action == "drop":
        del tensors[arguments[0]]
    elif action == "copy":
        dtype, shape, data = tensors[arguments[0]]
        tensors[arguments[1]] = [dtype, list(shape), bytearray(data)]
    elif action == "reshape":
        tensors[arguments[0]][1] = [int(extent) for extent in arguments[1].split(",")]
    elif action == "rename":
        for name in list(tensors):
            tensors[re.sub(arguments[0], arguments[1], name)] = tensors.pop(name)
    elif action == "drop_all":
        for name in [name for name in tensors if re.search(arguments[0], name)]:
            del tensors[name]
    elif action == "ones":
        shape = [int(extent) for extent in arguments[1].split(",")]
        tensors[arguments[0]] = ["F32", shape, bytearray(struct.pack("<f", 1) * math.prod(shape))]
    elif action == "fill":
        value, names = bytes.fromhex(arguments[1]), [name for name in tensors if re.search(arguments[0], name)]
        if not names:
            sys.exit(f"edit_safetensors: no tensor is {arguments[0]}")
        for name in names:
            data = tensors[name][2]
            begin = int(len(data) * float(arguments[2]))
            data[begin:] = value * ((len(data) - begin) // len(value))
    elif action == "widen":
        for tensor in tensors.values():
            if tensor[0] == "BF16":
                narrow = tensor[2]
                tensor[0] = "F32"
                tensor[2] = b"".join(b"\0\0" + narrow[at:at + 2] for at in range(0, len(narrow), 2))
    else:
        sys.exit(f"edit_safetensors: no action {action}")


def main():
    tensors = read(sys.argv[1])
    edit(tensors, sys.argv[2], sys.argv[3:])
    write(sys.argv[1], tensors)


if __name__ == "__main__":
    main()

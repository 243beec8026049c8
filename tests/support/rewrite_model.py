#!/usr/bin/env python3
"""Writes a model's safetensors once more with the same tensors, in other files, orders and spellings of headers; or a changed copy.

    rewrite_model.py FROM TO [HOW...]

Without HOW: three files of odd names, tensors in an order of their own, headers of three kinds of spacing, metadata and padding, and
an index in an order of its own. HOW changes that: `single` (model.safetensors alone), `no_index`, `value=NAME` (one byte of a tensor),
`drop=NAME`, `dtype=NAME` (F32 instead of what it is, of zeros), `add=NAME:LIKE` (a copy under another name), `prefix=FROM:TO` (of names).
Standard library only.
"""
import hashlib
import json
import os
import shutil
import struct
import sys

NAMES = ["weights.part-c.safetensors", "a_first.safetensors", "model-00007.safetensors"]


def read_model(directory):
    tensors = {}
    for file in sorted(os.listdir(directory)):
        if not file.endswith(".safetensors"):
            continue
        blob = open(os.path.join(directory, file), "rb").read()
        (length,) = struct.unpack("<Q", blob[:8])
        data = blob[8 + length:]
        for name, entry in json.loads(blob[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[name] = (entry["dtype"], entry["shape"], data[begin:end])
    return tensors


def change(tensors, how):
    what, _, value = how.partition("=")
    name, _, other = value.partition(":")
    if what == "value":
        dtype, shape, data = tensors[name]
        tensors[name] = (dtype, shape, bytes([data[0] ^ 1]) + data[1:])
    elif what == "drop":
        del tensors[name]
    elif what == "dtype":
        dtype, shape, data = tensors[name]
        width = {"BF16": 2, "F16": 2, "F32": 4}[dtype]
        tensors[name] = ("F32" if width == 2 else "BF16", shape, bytes(len(data) // width * (6 - width)))
    elif what == "add":
        tensors[name] = tensors[other]
    elif what == "prefix":
        for old in [old for old in tensors if old.startswith(name)]:
            tensors[other + old.removeprefix(name)] = tensors.pop(old)


def header_of(kind, entries):
    """Sorted or not, spaced or not, with metadata of several kinds and each padding that the format allows."""
    metadata = [{"format": "pt"}, {"format": "pt", "made by": "a trainer \u00e9"}, None][kind]
    items = sorted(entries.items(), reverse=True) if kind == 1 else list(entries.items())
    items = ([("__metadata__", metadata)] if metadata else []) + items
    if kind == 2:
        items = [(name, {"data_offsets": e["data_offsets"], "shape": e["shape"], "dtype": e["dtype"]}) for name, e in items]
    text = json.dumps(dict(items), separators=[(",", ":"), (", ", ": "), (" , ", " :\t")][kind], ensure_ascii=kind == 1)
    data = text.encode()
    return data + b" " * [-len(data) % 8, 3, 0][kind]


def write_file(path, kind, tensors, names):
    entries, offset = {}, 0
    for name in names:
        dtype, shape, data = tensors[name]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    header = header_of(kind, entries)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for name in names:
            file.write(tensors[name][2])


def main():
    source, target, *hows = sys.argv[1:]
    tensors = read_model(source)
    scattered = sorted(tensors, key=lambda name: hashlib.sha256(name.encode()).digest())
    place = {name: i % len(NAMES) for i, name in enumerate(scattered)}
    for how in hows:
        change(tensors, how)
    os.makedirs(target)
    for file in os.listdir(source):
        if file.endswith((".json", ".txt", ".jinja")) and "index" not in file and not file.startswith("shardweld_report"):
            shutil.copy(os.path.join(source, file), target)
    names = ["model.safetensors"] if "single" in hows else NAMES
    order = [name for name in scattered if name in tensors] + sorted(set(tensors) - set(scattered))
    weight_map = {}
    for i, file in enumerate(names):
        inside = [name for name in order if place.get(name, 0) % len(names) == i]
        write_file(os.path.join(target, file), i, tensors, inside)
        weight_map |= dict.fromkeys(inside, file)
    if len(names) > 1 and "no_index" not in hows:
        total = sum(len(data) for _, _, data in tensors.values())
        index = {"weight_map": dict(sorted(weight_map.items(), reverse=True)), "metadata": {"total_size": total, "total_parameters": 7}}
        with open(os.path.join(target, "model.safetensors.index.json"), "w") as file:
            json.dump(index, file, indent=1)
    config = os.path.join(target, "config.json")
    if os.path.exists(config):
        parsed = json.load(open(config))
        with open(config, "w") as file:
            json.dump(dict(sorted(parsed.items(), reverse=True)), file, indent=3)


main()

#!/usr/bin/env python3
"""Compares a model directory (or .safetensors file) with another one, or with digests, byte for byte, with Python's standard
library only.

    compare_safetensors.py GOT EXPECTED

EXPECTED is a model directory, a .safetensors file, a directory with an expected.json, or such a file; digest_safetensors.py
writes it. Checks GOT's files against the rules of safetensors 0.8 first: header length, JSON object, offsets that tile the data
without holes, overlaps or trailing bytes, sizes that fit dtype and shape, and for several files an index that names each tensor's
file. Exits 1 and says what differs.
"""
import hashlib
import json
import os
import struct
import sys

SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
         "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8}


def fail(text):
    print(os.path.basename(sys.argv[0]).removesuffix(".py") + ": " + text, file=sys.stderr)
    sys.exit(1)


def no_repeats(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        fail("a key stands twice in a header")
    return dict(pairs)


def read_file(path, strict):
    """{tensor name: (dtype, shape, bytes)} of one file."""
    with open(path, "rb") as file:
        blob = file.read()
    if len(blob) < 8:
        fail(f"{path}: {len(blob)} bytes are no safetensors file")
    (length,) = struct.unpack("<Q", blob[:8])
    text = blob[8:8 + length]
    if len(text) != length or text[:1] != b"{":
        fail(f"{path}: bad header")
    header = json.loads(text.decode("utf-8"), object_pairs_hook=no_repeats)
    metadata = header.pop("__metadata__", {})
    if strict and metadata.get("format") != "pt":
        fail(f"{path}: metadata.format is not pt")
    if strict and (8 + length) % 4096 != 0:
        fail(f"{path}: data does not begin at a multiple of 4096")
    data = blob[8 + length:]
    at = 0
    tensors = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        count = 1
        for extent in entry["shape"]:
            count *= extent
        if begin != at or end - begin != count * SIZES[entry["dtype"]]:
            fail(f"{path}: {name} has offsets {begin}..{end}, expected from {at}, {count} elements of {entry['dtype']}")
        at = end
        tensors[name] = (entry["dtype"], entry["shape"], data[begin:end])
    if at != len(data):
        fail(f"{path}: {len(data) - at} trailing bytes")
    return tensors


def read_model(path, strict):
    """{tensor name: (dtype, shape, bytes)} of a directory or a single file. strict: held against the rules for our outputs."""
    if os.path.isfile(path):
        return read_file(path, strict)
    files = sorted(name for name in os.listdir(path) if name.endswith(".safetensors"))
    if not files:
        fail(f"{path}: no .safetensors file")
    tensors = {}
    where = {}
    for name in files:
        for key, value in read_file(os.path.join(path, name), strict).items():
            if key in tensors:
                fail(f"{path}: {key} is in two files")
            tensors[key] = value
            where[key] = name
    index_path = os.path.join(path, "model.safetensors.index.json")
    if len(files) > 1 or os.path.exists(index_path):
        with open(index_path, encoding="utf-8") as file:
            index = json.load(file)
        if index["weight_map"] != where:
            fail(f"{path}: the index does not match the files")
        if index["metadata"]["total_size"] != sum(len(value[2]) for value in tensors.values()):
            fail(f"{path}: the index's total_size is wrong")
    return tensors


def digest_of(data):
    return hashlib.sha256(data).hexdigest()


def digests_at(path):
    """The digest file that path is or holds, or None."""
    if os.path.isdir(path):
        path = os.path.join(path, "expected.json")
    return path if path.endswith(".json") and os.path.isfile(path) else None


def read_expected(path):
    """{tensor name: (dtype, shape, bytes or None, sha256)}."""
    digests = digests_at(path)
    if digests:
        with open(digests, encoding="utf-8") as file:
            entries = json.load(file, object_pairs_hook=no_repeats)
        return {name: (entry["dtype"], entry["shape"], None, entry["sha256"]) for name, entry in entries.items()}
    return {name: (*value, digest_of(value[2])) for name, value in read_model(path, strict=False).items()}


def main():
    got = read_model(sys.argv[1], strict=True)
    expected = read_expected(sys.argv[2])
    if not expected:
        fail(f"{sys.argv[2]}: no tensor is expected")
    if set(got) != set(expected):
        fail(f"missing {sorted(set(expected) - set(got))[:5]}, unexpected {sorted(set(got) - set(expected))[:5]}")
    for name, (dtype, shape, data, digest) in expected.items():
        if (got[name][0], got[name][1]) != (dtype, shape):
            fail(f"{name} is {got[name][0]} {got[name][1]}, expected {dtype} {shape}")
        if digest_of(got[name][2]) != digest:
            at = next((f" from byte {i} on" for i in range(len(data or b"")) if data[i] != got[name][2][i]), "")
            fail(f"{name} differs{at}")
    print(f"{len(expected)} tensors equal")


if __name__ == "__main__":
    main()

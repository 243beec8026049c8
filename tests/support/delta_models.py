#!/usr/bin/env python3
"""Models for tests of `shardweld delta`, and a receiver of deltas that shares no code with it.

    delta_models.py make DIR SEED [N_ROWS]              a model of a few tensors
    delta_models.py step OLD NEW SHARE SEED             one of which about SHARE of the elements have changed, in every second tensor
    delta_models.py apply VERSION OLD NEW               NEW is OLD after a version
    delta_models.py same A B                            fails unless all tensors of both have the same bytes
"""

import json
import os
import pathlib
import random
import shutil
import struct
import sys


def header_of(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), 8 + length


def tensors_of(directory):
    """By name: file, offset, end, dtype and shape."""
    found = {}
    for path in sorted(pathlib.Path(directory).glob("*.safetensors")):
        header, data = header_of(path)
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found[name] = (path, data + begin, data + end, entry["dtype"], entry["shape"])
    return found


def bytes_of(place):
    path, begin, end = place[:3]
    with open(path, "rb") as file:
        file.seek(begin)
        return file.read(end - begin)


def write(path, tensors):
    entries, at = {}, 0
    for name, (shape, data) in tensors.items():
        entries[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(entries).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            file.write(data)


def make(directory, seed, n_rows="64"):
    rng, n_rows = random.Random(seed), int(n_rows)
    os.makedirs(directory)
    shapes = {f"layers.{layer}.{name}.weight": [n_rows, 96] for layer in range(5) for name in ("a", "b")}
    shapes.update({"empty": [0, 4], "scale": [], "odd": [33]})
    names, weight_map = list(shapes), {}
    files = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    for file, some in zip(files, (names[:7], names[7:])):
        tensors = {}
        for name in some:
            count = 1
            for extent in shapes[name]:
                count *= extent
            tensors[name] = (shapes[name], rng.randbytes(2 * count))
            weight_map[name] = file
        write(os.path.join(directory, file), tensors)
    total = sum(end - begin for _, begin, end, *_ in tensors_of(directory).values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    pathlib.Path(directory, "model.safetensors.index.json").write_text(json.dumps(index))
    pathlib.Path(directory, "config.json").write_text('{"dtype": "bfloat16"}')


def step(old, new, share, seed):
    rng, share = random.Random(seed), float(share)
    shutil.copytree(old, new)
    for number, (path, begin, end, *_) in enumerate(tensors_of(new).values()):
        data = bytearray(bytes_of((path, begin, end)))
        if number % 2 == 0 and data:
            for _ in range(max(1, int(share * len(data) / 2))):
                data[rng.randrange(len(data))] ^= 1 + rng.randrange(255)
            with open(path, "r+b") as file:
                file.seek(begin)
                file.write(data)


def apply(version, old, new):
    import xxhash
    import zstandard

    index = json.loads(pathlib.Path(version, "model.safetensors.index.json").read_text())
    said = index["metadata"]
    assert (said["delta_encoding"], said["compression_format"], said["checksum_format"]) == ("xor", "zstd", "xxh3-128"), said
    assert int(said["base_version"]) + 1 == int(said["version"]), said
    shutil.copytree(old, new)
    places, seen = tensors_of(new), {}
    names = sorted(path.name for path in pathlib.Path(version).iterdir())
    n_files = len(names) - 1
    assert names == sorted([f"model-{i:05d}-of-{n_files:05d}.safetensors" for i in range(n_files)] + ["model.safetensors.index.json"]), names
    for path in pathlib.Path(version).glob("*.safetensors"):
        sums = header_of(path)[0]["__metadata__"]
        for name, place in tensors_of(version).items():
            if place[0] != path:
                continue
            assert place[3] == "U8" and place[4] == [place[2] - place[1]], place
            base = bytes_of(places[name])
            difference = zstandard.ZstdDecompressor().decompress(bytes_of(place))
            assert len(difference) == len(base) and any(difference), name
            data = (int.from_bytes(base, "little") ^ int.from_bytes(difference, "little")).to_bytes(len(base), "little")
            assert xxhash.xxh3_128(data).hexdigest() == sums[name], name
            with open(places[name][0], "r+b") as file:
                file.seek(places[name][1])
                file.write(data)
            seen[name] = path.name
        assert set(sums) == {name for name, file in seen.items() if file == path.name}, path
    assert seen == index["weight_map"], "the index does not list what the files hold"


def same(a, b):
    ours, theirs = tensors_of(a), tensors_of(b)
    assert ours.keys() == theirs.keys(), "other names"
    for name in ours:
        assert bytes_of(ours[name]) == bytes_of(theirs[name]), name


{"make": make, "step": step, "apply": apply, "same": same}[sys.argv[1]](*sys.argv[2:])

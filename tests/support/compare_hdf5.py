#!/usr/bin/env python3
"""Compares the HDF5 files of a model directory with expected .safetensors files, byte for byte, through an independent reader: h5dump
(HDF5's own tool), or h5py with --h5py.

    compare_hdf5.py GOT EXPECTED [--h5py]

Checks names, shapes, stored types, the attribute shardweld_dtype, that every dataset is contiguous, the index of several files and that
/__config__ is config.json. Exits 1 and says what differs.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from compare_safetensors import fail, read_model

STORED = {"BF16": "H5T_STD_U16LE", "BOOL": "H5T_STD_U8LE", "F8_E4M3": "H5T_STD_U8LE", "F8_E5M2": "H5T_STD_U8LE", "F8_E8M0": "H5T_STD_U8LE",
          "F8_E4M3FNUZ": "H5T_STD_U8LE", "F8_E5M2FNUZ": "H5T_STD_U8LE",
          "U8": "H5T_STD_U8LE", "I8": "H5T_STD_I8LE", "U16": "H5T_STD_U16LE", "I16": "H5T_STD_I16LE", "U32": "H5T_STD_U32LE",
          "I32": "H5T_STD_I32LE", "U64": "H5T_STD_U64LE", "I64": "H5T_STD_I64LE", "F32": "H5T_IEEE_F32LE", "F64": "H5T_IEEE_F64LE"}


def h5dump(*arguments):
    result = subprocess.run(["h5dump", *arguments], capture_output=True, text=True)
    if result.returncode != 0:
        fail(f"h5dump {' '.join(arguments)}: {result.stderr[:300]}")
    return result.stdout


def read_by_h5dump(path):
    """{name: (dtype, shape, bytes)} of one file."""
    tensors = {}
    with tempfile.TemporaryDirectory() as scratch:
        for part in re.split(r'\n   DATASET "', h5dump("-A", "-p", path))[1:]:
            name = part.split('"', 1)[0]
            dtype = re.search(r'ATTRIBUTE "shardweld_dtype".*?\(0\): "(\w+)"', part, re.S).group(1)
            stored = re.match(r".*?DATATYPE +(\S+)", part, re.S).group(1)
            if dtype in STORED and stored != STORED[dtype]:
                fail(f"{path}: {name} is {dtype} but stored as {stored}")
            if "CONTIGUOUS" not in part or "FILTERS {\n         NONE" not in part:
                fail(f"{path}: {name} is not contiguous")
            simple = re.search(r"DATASPACE +SIMPLE \{ \( ([\d, ]+) \) /", part)
            shape = [int(extent) for extent in simple.group(1).split(",")] if simple else []
            raw = os.path.join(scratch, "raw")
            h5dump("-d", "/" + name.replace("\\", "\\\\"), "-b", "FILE", "-o", raw, path)
            with open(raw, "rb") as file:
                tensors[name] = (dtype, shape, file.read())
    return tensors


def read_by_h5py(path):
    import h5py
    tensors = {}
    with h5py.File(path, "r") as file:
        for name, dataset in file.items():
            if dataset.chunks is not None or dataset.id.get_offset() is None and dataset.size > 0:
                fail(f"{path}: {name} is not contiguous")
            tensors[name] = (dataset.attrs["shardweld_dtype"].decode(), list(dataset.shape), dataset[()].tobytes())
    return tensors


def read_hdf5(directory, read_file):
    with open(os.path.join(directory, "config.json"), "rb") as file:
        config = file.read()
    tensors, where = {}, {}
    for name in sorted(name for name in os.listdir(directory) if name.endswith(".h5")):
        found = read_file(os.path.join(directory, name))
        if found.pop("__config__", ("", [], b""))[2] != config:
            fail(f"{name}: /__config__ is not config.json")
        for key, value in found.items():
            if key in tensors:
                fail(f"{key} is in two files")
            tensors[key], where[key] = value, name
    index_path = os.path.join(directory, "model.h5.index.json")
    if len(set(where.values())) > 1 or os.path.exists(index_path):
        with open(index_path, encoding="utf-8") as file:
            index = json.load(file)
        if index["weight_map"] != where or index["metadata"]["total_size"] != sum(len(value[2]) for value in tensors.values()):
            fail("the index does not match the files")
    return tensors


def main():
    expected = read_model(sys.argv[2], strict=False)
    got = read_hdf5(sys.argv[1], read_by_h5py if "--h5py" in sys.argv else read_by_h5dump)
    if set(got) != set(expected):
        fail(f"missing {sorted(set(expected) - set(got))[:5]}, unexpected {sorted(set(got) - set(expected))[:5]}")
    for name, value in expected.items():
        if got[name] != value:
            fail(f"{name} is {got[name][:2]}, expected {value[:2]}" if got[name][:2] != value[:2] else f"{name} has other bytes")
    print(f"{len(expected)} tensors equal")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes the HDF5 fixtures here with h5py (written with h5py 3.16, HDF5 2.0): a llama model saved by two ranks in pieces, and files of
which each has one thing that is not read.

    make.py DIRECTORY
"""
import json
import os
import struct
import sys

import h5py
import numpy as np

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1,
          "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 10, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
          "rope_theta": 10000.0, "max_position_embeddings": 64, "torch_dtype": "bfloat16"}
# Name, shape and the axis that is divided among ranks (None: both hold all of it).
TENSORS = [("model.embed_tokens.weight", (10, 8), 0), ("model.norm.weight", (8,), None), ("lm_head.weight", (10, 8), 0),
           ("model.layers.0.input_layernorm.weight", (8,), None), ("model.layers.0.post_attention_layernorm.weight", (8,), None),
           ("model.layers.0.self_attn.q_proj.weight", (8, 8), 0), ("model.layers.0.self_attn.k_proj.weight", (4, 8), 0),
           ("model.layers.0.self_attn.v_proj.weight", (4, 8), 0), ("model.layers.0.self_attn.o_proj.weight", (8, 8), 1),
           ("model.layers.0.mlp.gate_proj.weight", (12, 8), 0), ("model.layers.0.mlp.up_proj.weight", (12, 8), 0),
           ("model.layers.0.mlp.down_proj.weight", (8, 12), 1)]


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def add_piece(file, name, values, dtype, shape, offsets):
    dataset = file.create_dataset(name, data=values)
    dataset.attrs["shardweld_dtype"] = dtype
    dataset.attrs["shardweld_global_shape"] = np.array(shape, dtype=np.int64)
    dataset.attrs["shardweld_offsets"] = np.array(offsets, dtype=np.int64)


def make_model(directory):
    """bfloat16 as uint16, norms in float32; rank 1 of two has the longer part of what cannot be halved."""
    source, expected = os.path.join(directory, "source"), os.path.join(directory, "expected")
    os.makedirs(source)
    os.makedirs(expected)
    with open(os.path.join(source, "config.json"), "w") as file:
        json.dump(CONFIG, file, indent=2)
    random = np.random.default_rng(7)
    whole = {}
    files = [h5py.File(os.path.join(source, f"rank_{rank}.h5"), "w") for rank in range(2)]
    for name, shape, axis in TENSORS:
        if axis is None:
            dtype, values = "F32", random.standard_normal(shape, dtype=np.float32)
        else:
            dtype, values = "BF16", random.integers(0, 1 << 16, shape, dtype=np.uint16)
        whole[name] = (dtype, values)
        for rank, file in enumerate(files):
            if axis is None:
                add_piece(file, name, values, dtype, shape, [0] * len(shape))
                continue
            half = (shape[axis] - 1) // 2
            part = np.take(values, range(half) if rank == 0 else range(half, shape[axis]), axis)
            offsets = [0] * len(shape)
            offsets[axis] = 0 if rank == 0 else half
            add_piece(file, name, np.ascontiguousarray(part), dtype, shape, offsets)
    for file in files:
        file.close()
    write_safetensors(os.path.join(expected, "model.safetensors"), whole)


def make_types(path):
    """One dataset of each element type that h5py writes by itself, without attributes."""
    with h5py.File(path, "w") as file:
        for name in "uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64 bool".split():
            file[name] = np.arange(3).astype(name)
        file["scalar"] = np.float32(1.5)
        file["empty"] = np.zeros((0, 4), dtype=np.float32)
        file["null"] = h5py.Empty("f4")


DTYPES = "BF16 F16 F32 F64 F8_E4M3 F8_E5M2 F8_E8M0 BOOL U8 I8 U16 I16 U32 I32 U64 I64 C64".split()
STORED = {"BF16": "uint16", "F16": "float16", "F32": "float32", "F64": "float64", "F8_E4M3": "uint8", "F8_E5M2": "uint8", "F8_E8M0": "uint8",
          "BOOL": "uint8", "C64": "complex64"}


def make_dtypes(directory):
    """A model of two layers whose tensors have every dtype in turn and every bit pattern."""
    source, expected = os.path.join(directory, "source"), os.path.join(directory, "expected")
    os.makedirs(source)
    os.makedirs(expected)
    with open(os.path.join(source, "config.json"), "w") as file:
        json.dump({**CONFIG, "num_hidden_layers": 2}, file, indent=2)
    names = [(name.replace("layers.0", f"layers.{layer}"), shape) for layer in range(2) for name, shape, _ in TENSORS
             if layer == 0 or "layers" in name]
    random = np.random.default_rng(11)
    whole = {}
    with h5py.File(os.path.join(source, "model.h5"), "w") as file:
        for at, (name, shape) in enumerate(names):
            dtype = DTYPES[at % len(DTYPES)]
            stored = np.dtype(STORED.get(dtype) or {"U": "uint", "I": "int"}[dtype[0]] + dtype[1:])
            size = int(np.prod(shape)) * stored.itemsize
            values = np.frombuffer(random.integers(0, 2 if dtype == "BOOL" else 256, size, dtype=np.uint8).tobytes(), stored).reshape(shape)
            file[name] = values
            file[name].attrs["shardweld_dtype"] = np.bytes_(dtype.encode())
            assert file[name][()].tobytes() == values.tobytes()
            whole[name] = (dtype, values)
    write_safetensors(os.path.join(expected, "model.safetensors"), whole)


def bad_file(directory, name):
    return h5py.File(os.path.join(directory, name + ".h5"), "w")


def make_bad(directory):
    os.makedirs(directory)
    ones = np.ones((8, 4), dtype=np.float32)
    with bad_file(directory, "chunked") as file:
        file.create_dataset("w", data=ones, chunks=(4, 4))
    with bad_file(directory, "compressed") as file:
        file.create_dataset("w", data=ones, compression="gzip")
    with bad_file(directory, "compact") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(file.id, b"w", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((8, 4)), plist)
    with bad_file(directory, "unwritten") as file:
        file.create_dataset("w", shape=(8, 4), dtype=np.float32)
    with bad_file(directory, "external_link") as file:
        file["w"] = h5py.ExternalLink("/etc/passwd", "/w")
    with bad_file(directory, "soft_link") as file:
        file["v"] = ones
        file["w"] = h5py.SoftLink("/v")
    with bad_file(directory, "external_storage") as file:
        file.create_dataset("w", shape=(8, 4), dtype=np.float32, external=[("/etc/passwd", 0, 128)])
    with bad_file(directory, "virtual") as file:
        layout = h5py.VirtualLayout(shape=(8, 4), dtype=np.float32)
        layout[:] = h5py.VirtualSource("/etc/passwd", "w", shape=(8, 4))
        file.create_virtual_dataset("w", layout)
    with bad_file(directory, "group") as file:
        file["layers/w"] = ones
    with bad_file(directory, "big_endian") as file:
        file["w"] = ones.astype(">f4")
    with bad_file(directory, "text") as file:
        file["w"] = np.array([b"abc"], dtype="S3")
    for name, key, value in [("dtype_unknown", "shardweld_dtype", "F99"), ("dtype_wrong", "shardweld_dtype", "BF16"),
                             ("dtype_number", "shardweld_dtype", 7), ("dtype_long", "shardweld_dtype", np.bytes_(b"F" * 100)),
                             ("offsets_alone", "shardweld_offsets", np.array([0, 0]))]:
        with bad_file(directory, name) as file:
            file["w"] = ones
            file["w"].attrs[key] = value
    for name, shape, offsets in [("piece_outside", (8, 8), (0, 5)), ("piece_negative", (8, 8), (-1, 0)), ("piece_axes", (8, 4, 1), (0, 0)),
                                 ("piece_huge", (2**62, 2**62), (0, 0)), ("piece_gap", (16, 4), (0, 0))]:
        with bad_file(directory, name) as file:
            add_piece(file, "w", ones, "F32", shape, offsets)
    path = os.path.join(directory, "past_end.h5")
    # The oldest form of headers, which has no checksums, so that the address can be replaced.
    with h5py.File(path, "w", libver=("earliest", "v108")) as file:
        file["w"] = ones
        offset = file["w"].id.get_offset()
    with open(path, "rb") as file:
        blob = file.read()
    old, new = struct.pack("<QQ", offset, ones.nbytes), struct.pack("<QQ", len(blob) - 64, ones.nbytes)
    assert blob.count(old) == 1
    with open(path, "wb") as file:
        file.write(blob.replace(old, new))


if __name__ == "__main__":
    make_model(os.path.join(sys.argv[1], "llama-2ranks"))
    make_dtypes(os.path.join(sys.argv[1], "llama-dtypes"))
    make_types(os.path.join(sys.argv[1], "types.h5"))
    make_bad(os.path.join(sys.argv[1], "bad"))

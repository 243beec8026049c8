#!/usr/bin/env python3
"""Writes what compare_safetensors.py needs to know of a model, without the model: dtype, shape and sha256 of each tensor.

    digest_safetensors.py MODEL OUT

MODEL: a model directory or a .safetensors file. OUT: the .json file to write. Keeps the test data small.
"""
import json
import sys

from compare_safetensors import digest_of, read_model


def main():
    lines = []
    for name, (dtype, shape, data) in sorted(read_model(sys.argv[1], strict=False).items()):
        entry = {"dtype": dtype, "shape": shape, "sha256": digest_of(data)}
        lines.append(f"{json.dumps(name)}: {json.dumps(entry)}")
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()

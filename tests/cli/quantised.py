#!/usr/bin/env python3
"""quantised.py DIR EXPECTED.json ENCODING: dtype, shape and bytes of every tensor in DIR are the expected ones."""
import hashlib
import json
import pathlib
import sys


def tensors(directory):
    found = {}
    for path in sorted(pathlib.Path(directory).glob("*.safetensors")):
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = (8 + length + at for at in entry["data_offsets"])
                digest = hashlib.sha256(data[begin:end]).hexdigest()
                found[name] = [entry["dtype"], entry["shape"], digest]
    return found


def main(directory, expected, encoding):
    wanted = json.loads(pathlib.Path(expected).read_text())[encoding]
    found = tensors(directory)
    bad = [name for name in sorted(wanted.keys() | found.keys()) if wanted.get(name) != found.get(name)]
    for name in bad[:10]:
        print(f"{name}: {found.get(name)} instead of {wanted.get(name)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

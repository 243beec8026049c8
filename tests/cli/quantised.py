#!/usr/bin/env python3
"""quantised.py DIR EXPECTED.json ENCODING: dtype, shape and bytes of every tensor in DIR are the expected ones."""
import hashlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from edit_safetensors import read


def main(directory, expected, encoding):
    wanted = json.loads(pathlib.Path(expected).read_text())[encoding]
    found = {name: [dtype, shape, hashlib.sha256(data).hexdigest()] for name, (dtype, shape, data) in read(directory).items()}
    bad = [name for name in sorted(wanted.keys() | found.keys()) if wanted.get(name) != found.get(name)]
    for name in bad[:10]:
        print(f"{name}: {found.get(name)} instead of {wanted.get(name)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

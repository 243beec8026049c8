#!/usr/bin/env python3
"""gguf_file.py FILE: its keys and tensors as JSON. gguf_file.py FILE EXPECTED.json TYPE: type, shape and bytes of every tensor are the
expected ones. Knows GGUF version 3."""
import hashlib
import json
import pathlib
import struct
import sys

TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
         8: ("Q8_0", 32, 34), 30: ("BF16", 1, 2)}
VALUES = {4: "I", 5: "i", 6: "f", 7: "?", 10: "Q"}


class Reader:
    def __init__(self, path):
        self.data = pathlib.Path(path).read_bytes()
        self.at = 0

    def take(self, form):
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        length = self.take("Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.take("I"), self.take("Q")
            return [self.value(inner) for _ in range(count)]
        return self.take(VALUES[kind])


def read(path):
    reader = Reader(path)
    assert reader.data[:4] == b"GGUF"
    reader.at = 4
    assert reader.take("I") == 3
    n_tensors, n_keys = reader.take("Q"), reader.take("Q")
    keys = {}
    for _ in range(n_keys):
        name = reader.text()
        keys[name] = reader.value(reader.take("I"))
    infos = []
    for _ in range(n_tensors):
        name = reader.text()
        dims = [reader.take("Q") for _ in range(reader.take("I"))]
        infos.append((name, dims, reader.take("I"), reader.take("Q")))
    begin = (reader.at + 31) // 32 * 32
    tensors, end = {}, 0
    for name, dims, kind, offset in infos:
        assert offset == end, f"{name} begins at {offset}, not at {end}"
        kind, values, size = TYPES[kind]
        n = 1
        for dim in dims:
            n *= dim
        assert dims[0] % values == 0
        raw = reader.data[begin + offset:begin + offset + n // values * size]
        assert len(raw) == n // values * size, name
        tensors[name] = [kind, dims[::-1], hashlib.sha256(raw).hexdigest()]
        end = (offset + len(raw) + 31) // 32 * 32
    assert begin + end == len(reader.data), "the last tensor is not filled up"
    return keys, tensors


def main(path, expected=None, kind=None):
    keys, found = read(path)
    if expected is None:
        json.dump({"keys": keys, "tensors": found}, sys.stdout, indent=1)
        return 0
    wanted = json.loads(pathlib.Path(expected).read_text())[kind]
    bad = [name for name in sorted(wanted.keys() | found.keys()) if wanted.get(name) != found.get(name)]
    for name in bad[:10]:
        print(f"{name}: {found.get(name)} instead of {wanted.get(name)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

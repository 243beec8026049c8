#!/usr/bin/env python3
"""slow.py FAULT FILE [NAME]: makes a file of some megabytes that costs a careless reader hours, by sharing, repeating or nesting."""
import io
import json
import pathlib
import struct
import sys
import zipfile

import damage

MANY = 200000


@damage.of_pickle
def shared_state(root, name):
    """Many tensors that share one object, whose many attributes each look-up would go through."""
    made = root[name]
    spec = made.args[3][1]["_spec"]
    spec.state = {**{f"x{i}": None for i in range(MANY)}, **spec.state}
    spec.state = dict(sorted(spec.state.items(), key=lambda item: item[0][0] == "x"))
    for i in range(MANY):
        root[f"t{i}"] = made


@damage.of_pickle
def shared_tensor(root, name):
    """One tensor under many names."""
    for i in range(MANY):
        root[f"t{i}"] = root[name]


@damage.of_pickle
def long_shape(root, name):
    """A shape of many axes, shared by many tensors."""
    made = damage.tensor(root, name)
    damage.set_argument(made, 2, (1,) * MANY)
    damage.set_argument(made, 3, (1,) * MANY)
    for i in range(MANY):
        root[f"t{i}"] = made


def memo(path):
    """A value put away and fetched again, over and over, in lists of lists."""
    damage.prefix(path, b"]q\x01" + b"](" + b"](" * 30 + (b"](" + b"h\x01" * 200 + b"e") * (MANY // 40) + b"e" * 31 + b"00")


def records(path):
    """An archive of very many records."""
    with zipfile.ZipFile(path, "a") as archive:
        root = archive.namelist()[0].split("/", 1)[0]
        for i in range(MANY // 2):
            archive.writestr(zipfile.ZipInfo(f"{root}/extra/{i}"), b"")


@damage.of_pickle
def chunks(root, fqn):
    """A tensor in very many chunks that form no grid."""
    entry = damage.dcp_entry(root, fqn)
    size = damage.named("torch", "Size")
    first = entry.state["chunks"][0]
    infos = damage.dcp_infos(root, fqn)
    rows = MANY // 10
    entry.state["size"].args = ((2 * rows, 3),)
    entry.state["chunks"] = []
    root.state["storage_data"] = {key: value for key, value in root.state["storage_data"].items() if key.state["fqn"] != fqn}
    for i in range(rows):
        # Bricks: each row is cut elsewhere.
        cut = 1 + i % 2
        for offsets, sizes in (((2 * i, 0), (2, cut)), ((2 * i, cut), (2, 3 - cut))):
            chunk = type(first)()
            chunk.called = first.called
            chunk.state = {"offsets": size(offsets), "sizes": size(sizes)}
            entry.state["chunks"].append(chunk)
            index = type(infos[0][0])()
            index.called = infos[0][0].called
            index.state = {"fqn": fqn, "offset": size(offsets), "index": len(entry.state["chunks"]) - 1}
            index.args = (fqn, offsets)
            info = type(infos[0][1])()
            info.called = infos[0][1].called
            info.state = dict(infos[0][1].state)
            root.state["storage_data"][index] = info


def of_json(edit):
    """A fault of a file whose JSON `edit` changes, with the fault's arguments."""
    def fault(path, *arguments):
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        edit(value, *arguments)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
    return fault


@of_json
def index(value):
    """An index that names a million tensors."""
    name = next(iter(value["weight_map"].values()))
    value["weight_map"].update((f"t.{i}", name) for i in range(5 * MANY))


# A million fields in one object; one number of config.json.
fields = of_json(lambda value: value.update((f"x{i}", 0) for i in range(5 * MANY)))
field = of_json(lambda config, name, value: config.update({name: int(value)}))


def header(path):
    """A safetensors header of very many empty tensors."""
    with open(path, "rb") as file:
        blob = file.read()
    (length,) = struct.unpack("<Q", blob[:8])
    value = json.loads(blob[8:8 + length])
    value.update((f"t.{i}", {"dtype": "F32", "shape": [0, 1], "data_offsets": [0, 0]}) for i in range(MANY))
    text = json.dumps(value).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + blob[8 + length:])


def patterns(path):
    """An adapter's expressions, each against each module."""
    value = {"r": 4, "lora_alpha": 8, "peft_type": "LORA", "alpha_pattern": {f"(a*)*(b|c)*{i}x": 1 for i in range(30000)}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


class Holes(io.FileIO):
    """A file in which zeros take no place."""

    def write(self, data):
        if len(data) > 4096 and bytes(data).count(0) == len(data):
            self.seek(len(data), io.SEEK_CUR)
            return len(data)
        return super().write(data)


def hollow_record(path):
    """data.pkl: half a gigabyte of zeros that take no room on the disk."""
    with zipfile.ZipFile(path) as old:
        records = [(info.filename, old.read(info)) for info in old.infolist()]
    with Holes(path, "w+") as file, zipfile.ZipFile(file, "w") as new:
        for name, content in records:
            with new.open(name, "w") as record:
                for _ in range(512 if name.endswith("/data.pkl") else 0):
                    record.write(bytes(1 << 20))
                if not name.endswith("/data.pkl"):
                    record.write(content)


def hollow_pickle(path):
    """A pickle of zeros that take no room on the disk."""
    with open(path, "wb") as file:
        file.truncate(1 << 29)


def padded_pickle(path):
    """A whole pickle, and zeros behind it."""
    with open(path, "r+b") as file:
        file.truncate(1 << 29)


def long_text(path):
    """A pickle that begins well: a text of half a gigabyte."""
    with open(path, "wb") as file:
        file.write(b"\x80\x04\x8d" + struct.pack("<Q", (1 << 29) - 12))
        file.truncate((1 << 29) - 1)
        file.seek(0, 2)
        file.write(b".")


def marks(path):
    """A pickle of marks."""
    with open(path, "wb") as file:
        file.write(b"\x80\x04" + b"(" * 60_000_000)


def empty_lists(path):
    """A pickle of empty lists."""
    with open(path, "wb") as file:
        file.write(b"\x80\x04" + b"]" * 60_000_000)


def files(path):
    """Beside shards and one level below, all empty."""
    pathlib.Path(path, "more").mkdir()
    for number in range(20000):
        pathlib.Path(path, f"junk_{number}.pt").touch()
        pathlib.Path(path, "more", str(number)).touch()


def main():
    globals()[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()

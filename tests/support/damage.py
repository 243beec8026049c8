#!/usr/bin/env python3
"""Makes one fault in a copy of a checkpoint: damage.py FAULT FILE [arguments].

Knows zip archives and pickles through Python's standard library alone; never runs what a pickle names.
"""
import argparse
import ast
import collections
import copyreg
import glob
import io
import os
import pickle
import pickletools
import re
import struct
import sys
import warnings
import zipfile


class Named(type):
    """A class that stands for one global: made again under the same name, whether by REDUCE or by NEWOBJ."""

    def __call__(cls, *args):
        made = cls.__new__(cls, *args)
        made.called = True
        return made


class Made(metaclass=Named):
    """What a global made: its arguments, its state (BUILD), its items."""

    called = False
    state = None

    def __new__(cls, *args, **kwargs):
        made = object.__new__(cls)
        made.args = args
        made.fields = kwargs
        return made

    def __hash__(self):
        return hash((type(self).__name__, self.args))

    def __eq__(self, other):
        return self is other

    def __setstate__(self, state):
        self.state = state

    def __reduce_ex__(self, protocol):
        if self.called:
            return type(self), self.args, self.state
        return copyreg.__newobj__, (type(self), *self.args), self.state


REAL = {("collections", "OrderedDict"): collections.OrderedDict, ("argparse", "Namespace"): argparse.Namespace, ("_io", "BytesIO"): io.BytesIO}


class Storage:
    def __init__(self, fields):
        self.fields = list(fields)


class Reader(pickle._Unpickler):
    def find_class(self, module, name):
        if (module, name) in REAL:
            return REAL[module, name]
        if module in ("builtins", "__builtin__", "_codecs"):
            return super().find_class(module, name)
        return named(module, name)

    def persistent_load(self, fields):
        return Storage(fields)


class Writer(pickle._Pickler):
    def persistent_id(self, value):
        return tuple(value.fields) if isinstance(value, Storage) else None

    def save(self, value, save_persistent_id=True):
        if isinstance(value, Named):
            self.write_global(value)
        else:
            super().save(value, save_persistent_id)

    def write_global(self, value):
        module, name = value.place
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())


known = {}


def named(module, name):
    return known.setdefault((module, name), Named(name, (Made,), {"place": (module, name)}))


def is_zip(path):
    return zipfile.is_zipfile(path)


def records_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_records(path, records, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in records.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)


def record_name(records, end):
    return next(name for name in records if name.split("/", 1)[1] == end)


def pickle_of(path):
    if not is_zip(path):
        return open(path, "rb").read()
    records = records_of(path)
    return records[record_name(records, "data.pkl")]


def put_pickle(path, data):
    if not is_zip(path):
        open(path, "wb").write(data)
        return
    records = records_of(path)
    records[record_name(records, "data.pkl")] = data
    write_records(path, records)


def change(path, edit):
    """Reads the pickle of a file, lets `edit` change the values, and writes it again."""
    data = pickle_of(path)
    value = Reader(io.BytesIO(data)).load()
    edit(value)
    out = io.BytesIO()
    Writer(out, data[1]).dump(value)
    put_pickle(path, out.getvalue())


def of_pickle(edit):
    """A fault of a file whose pickle `edit` changes, with the fault's arguments."""
    return lambda path, *arguments: change(path, lambda root: edit(root, *arguments))


def rename_text(path, old, new):
    """In every text of the pickle, names among them."""
    data, out = pickle_of(path), b""
    ends = [at for _, _, at in pickletools.genops(data)][1:] + [len(data)]
    for (code, argument, at), end in zip(pickletools.genops(data), ends):
        if code.name == "FRAME":
            continue  # its length would be another
        is_name = code.name in ("BINUNICODE", "SHORT_BINUNICODE") and old in argument
        out += text(argument.replace(old, new)) if is_name else data[at:end]
    put_pickle(path, out)


def prefix(path, code):
    """Puts opcodes in front of everything; they must leave the stack as it was."""
    data = pickle_of(path)
    at = 2
    if data[2:3] == pickle.FRAME:
        at = 11
        data = data[:3] + struct.pack("<Q", struct.unpack("<Q", data[3:11])[0] + len(code)) + data[11:]
    put_pickle(path, data[:at] + code + data[at:])


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def numbers(value):
    return tuple(int(number) for number in value.split(",")) if value else ()


def tensor(root, name):
    """The call that makes a tensor: of a model in a legacy file, or the local part of a flat state dict's entry."""
    if name in root:
        found = root[name]
    else:
        found = next((model[name] for key, model in root.items() if key.startswith("model") and name in model), None)
    while type(found).place[1] != "_rebuild_tensor_v2":
        is_local = type(found).place[1] == "_rebuild_from_type_v2" and isinstance(found.args[3], tuple)
        found = found.args[3][1]["_local_tensor"] if is_local else found.args[0]
    return found


def set_argument(made, index, value):
    made.args = (*made.args[:index], value, *made.args[index + 1:])


# Zip archives.

def of_record(edit):
    """A fault of one record, of which `edit` makes another with the fault's arguments; None: none."""
    def fault(path, end, *arguments):
        records = records_of(path)
        name = record_name(records, end)
        records[name] = edit(records[name], *arguments)
        write_records(path, {name: data for name, data in records.items() if data is not None})
    return fault


drop_record = of_record(lambda data: None)
set_record = of_record(lambda data, value: value.encode())
shorten_record = of_record(lambda data, n_bytes: data[:-int(n_bytes)])
fill_record = of_record(lambda data: b"\xff" * len(data))


@of_record
def flip_record(data, at="0"):
    return data[:int(at)] + bytes([data[int(at)] ^ 1]) + data[int(at) + 1:]


def flip_byte(path):
    """In the middle of the largest record, whose CRC-32 stays as it was."""
    record = max(zipfile.ZipFile(path).infolist(), key=lambda one: one.file_size)
    with open(path, "r+b") as file:
        file.seek(record.header_offset + record.file_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))


def take_storages(path, other):
    """The bytes of another file's tensors below this one's names, types and shapes."""
    records, others = records_of(path), records_of(other)
    for name in records:
        if "/data/" in name:
            records[name] = others[record_name(others, name.split("/", 1)[1])]
    write_records(path, records)


def rewrite(path):
    write_records(path, records_of(path))


def deflate(path):
    write_records(path, records_of(path), zipfile.ZIP_DEFLATED)


def add_record(path, name, value):
    records = records_of(path)
    records[name] = value.encode()
    write_records(path, records)


def repeat_record(path, end):
    warnings.simplefilter("ignore")
    records = records_of(path)
    name = record_name(records, end)
    rewrite(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), bytes(len(records[name])))


def break_directory(path):
    data = bytearray(open(path, "rb").read())
    at = data.index(b"PK\x01\x02")
    data[at:at + 64] = b"\xff" * 64
    open(path, "wb").write(data)


def move_directory(path):
    """The local headers' offsets in the directory point past the end."""
    rewrite(path)
    data = bytearray(open(path, "rb").read())
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        data[at + 42:at + 46] = struct.pack("<I", 0x7ffffff0)
        at = data.find(b"PK\x01\x02", at + 46)
    open(path, "wb").write(data)


# Pickles: opcodes.

def call(path, module, name, argument):
    prefix(path, f"c{module}\n{name}\n(".encode() + text(argument) + b"tR0")


def call_by_inst(path, module, name, argument):
    prefix(path, b"(" + text(argument) + f"i{module}\n{name}\n0".encode())


def nest(path, depth):
    prefix(path, b"]" * int(depth) + b"a" * (int(depth) - 1) + b"0")


def double(path, depth):
    """2 to the power of `depth` leaves by sharing; behind everything else, as memo numbers grow with the bytes before them."""
    code = b"]r" + struct.pack("<I", 20000)
    for level in range(int(depth)):
        code += b"(j" + struct.pack("<I", 20000 + level) + b"j" + struct.pack("<I", 20000 + level) + b"tr" + struct.pack("<I", 20001 + level)
    put_pickle(path, pickle_of(path)[:-1] + code + b"0" * (int(depth) + 1) + b".")


OPCODES = {
    "huge_string": b"X\xfe\xff\xff\xff0",
    "huge_memo": b"Nr\xff\xff\xff\xff0",
    "negative_long": b"\x8b\xff\xff\xff\xff0",
    "underflow": b"s",
}


def opcode(path, name):
    prefix(path, OPCODES[name])


def no_stop(path):
    put_pickle(path, pickle_of(path)[:-1])


# Pickles of legacy rank files.

set_size = of_pickle(lambda root, name, size: set_argument(tensor(root, name), 2, numbers(size)))
set_offset = of_pickle(lambda root, name, offset: set_argument(tensor(root, name), 1, int(offset)))
drop_tensor = of_pickle(lambda root, name: root["model"].pop(name))
add_tensor = of_pickle(lambda root, name, like: root["model"].__setitem__(name, tensor(root, like)))
drop_args = of_pickle(lambda root: root.pop("args"))
# Another shape in a file that holds one tensor.
blob_size = of_pickle(lambda root, size: set_argument(root, 2, numbers(size)))
# Nothing but what every other fault does besides: shows that it is the fault that is refused.
repickle = of_pickle(lambda root: None)


@of_pickle
def resize(root, name, size):
    """A contiguous tensor of another shape over the first bytes of its storage."""
    shape = numbers(size)
    strides = [1]
    for length in reversed(shape[1:]):
        strides.insert(0, strides[0] * length)
    set_argument(tensor(root, name), 2, shape)
    set_argument(tensor(root, name), 3, tuple(strides))


@of_pickle
def set_storage(root, name, field, value):
    """Fields of the persistent id: 1 type, 2 record key, 4 number of elements."""
    kinds = {"1": lambda: named("torch", value), "2": lambda: value, "4": lambda: int(value)}
    tensor(root, name).args[0].fields[int(field)] = kinds[field]()


def set_args(path, name, value):
    """Of all files that the path's pattern names."""
    for file in glob.glob(path) or [path]:
        change(file, lambda root: setattr(root["args"], name, ast.literal_eval(value)))


def make_common(path, *fields):
    """A common.pt of args and an iteration, which comes last."""
    *of_args, _, iteration = fields
    values = {name: int(value) for name, value in zip(of_args[::2], of_args[1::2])}
    out = io.BytesIO()
    Writer(out, 2).dump({"args": argparse.Namespace(**values), "iteration": int(iteration)})
    write_records(path, {"archive/data.pkl": out.getvalue(), "archive/version": b"3\n"})


# Any pickle: values at A/B/C, by keys or numbers, `*` for the first key.

def holder_of(root, where):
    *above, last = where.split("/")
    key_of = lambda value, key: next(iter(value)) if key == "*" else key if key in value else int(key) if key.lstrip("-").isdigit() else key
    for key in above:
        root = root[key_of(root, key)]
    return root, key_of(root, last)


@of_pickle
def set_value(root, where, value):
    holder, key = holder_of(root, where)
    holder[key] = ast.literal_eval(value)


@of_pickle
def pop_value(root, where):
    holder, key = holder_of(root, where)
    holder.pop(key)


@of_pickle
def copy_value(root, where, name):
    """Beside itself under another name."""
    holder, key = holder_of(root, where)
    holder[name] = holder[key]


# Rank files of FSDP: flat dictionaries of DTensors.

def spec_of(root, name):
    return root[name].args[3][1]["_spec"].state


drop_entry = of_pickle(lambda root, name: root.pop(name))
add_entry = of_pickle(lambda root, name, value: root.__setitem__(name, ast.literal_eval(value)))
copy_entry = of_pickle(lambda root, name, new: root.__setitem__(new, root[name]))
rename_entry = of_pickle(lambda root, name, new: root.__setitem__(new, root.pop(name)))
# All names in which the regular expression matches.
rename_entries = of_pickle(lambda root, pattern, new: [root.__setitem__(re.sub(pattern, new, name), root.pop(name)) for name in list(root)])
# Only the local tensor of a DTensor.
plain_entry = of_pickle(lambda root, name: root.__setitem__(name, tensor(root, name)))
shard_dim = of_pickle(lambda root, name, dim: spec_of(root, name)["placements"][0].state.__setitem__("dim", int(dim)))
placement = of_pickle(lambda root, name, kind: spec_of(root, name).__setitem__("placements", (named("torch.distributed.tensor.placement_types", kind)(),)))


@of_pickle
def global_size(root, name, size):
    made_of = root[name].args[2]
    set_argument(root[name], 2, (*made_of[:2], numbers(size), *made_of[3:]))


# DCP metadata.

def dcp_entry(root, fqn):
    return root.state["state_dict_metadata"][fqn]


@of_pickle
def dcp_path(root, old, new):
    for info in root.state["storage_data"].values():
        if info.state["relative_path"] == old:
            info.state["relative_path"] = new


def dcp_infos(root, fqn):
    return [(index, info) for index, info in root.state["storage_data"].items() if index.state["fqn"] == fqn]


# Field offset or length of the last blob of a tensor.
dcp_place = of_pickle(lambda root, fqn, field, value: dcp_infos(root, fqn)[-1][1].state.__setitem__(field, int(value)))
dcp_drop_chunk = of_pickle(lambda root, fqn: dcp_entry(root, fqn).state["chunks"].pop())
dcp_drop_storage = of_pickle(lambda root, fqn: root.state["storage_data"].pop(dcp_infos(root, fqn)[-1][0]))


@of_pickle
def dcp_size(root, fqn, size):
    dcp_entry(root, fqn).state["size"].args = (numbers(size),)


@of_pickle
def dcp_chunk(root, fqn, number, field, value):
    """offsets or sizes of one chunk; the index that names its blob follows."""
    size = named("torch", "Size")(numbers(value))
    chunk = dcp_entry(root, fqn).state["chunks"][int(number)]
    before = chunk.state["offsets"].args
    chunk.state[field] = size
    for index, _ in dcp_infos(root, fqn):
        if field == "offsets" and index.state["offset"].args == before and index.state.get("index") in (None, int(number)):
            index.state["offset"] = size
            break


@of_pickle
def dcp_rename(root, pattern, new):
    """Names in which the regular expression matches, which lie in no dictionary then."""
    entries = root.state["state_dict_metadata"]
    renamed = {fqn: re.sub(pattern, new, fqn) for fqn in list(entries) if re.search(pattern, fqn)}
    for fqn, name in renamed.items():
        entries[name] = entries.pop(fqn)
        if root.state["planner_data"] is not None:
            root.state["planner_data"].pop(fqn, None)
            root.state["planner_data"][name] = (name,)
    for index in root.state["storage_data"]:
        index.state["fqn"] = renamed.get(index.state["fqn"], index.state["fqn"])


@of_pickle
def dcp_drop(root, fqn):
    for index, _ in dcp_infos(root, fqn):
        del root.state["storage_data"][index]
    del root.state["state_dict_metadata"][fqn]


@of_pickle
def dcp_object(root, fqn):
    """Makes a tensor an object, as what lies in a tuple is saved: its blob is what was pickled."""
    kind = named("torch.distributed.checkpoint.metadata", "BytesStorageMetadata")
    root.state["state_dict_metadata"][fqn] = kind.__new__(kind)
    (index, _), *others = dcp_infos(root, fqn)
    index.state["offset"] = None
    for other, _ in others:
        del root.state["storage_data"][other]


@of_pickle
def dcp_dtype(root, fqn, dtype):
    properties = dcp_entry(root, fqn).state["properties"]
    properties.state = (named("torch", dtype), *properties.state[1:])


def dcp_blob(path, fqn, fault, *arguments):
    """Another fault inside the last blob of a tensor: the blob is taken out, damaged, and put at the end of its file."""
    def edit(root):
        state = dcp_infos(root, fqn)[-1][1].state
        shards = path.rsplit("/", 1)[0] + "/" + state["relative_path"]
        data = open(shards, "rb").read()
        blob = shards + ".blob"
        open(blob, "wb").write(data[state["offset"]:state["offset"] + state["length"]])
        globals()[fault](blob, *arguments)
        state["offset"], state["length"] = len(data), len(open(blob, "rb").read())
        open(shards, "ab").write(open(blob, "rb").read())
        os.remove(blob)

    change(path, edit)


def show(path):
    """Names and shapes, to write tests by."""
    root = Reader(io.BytesIO(pickle_of(path))).load()
    if not isinstance(root, dict):
        for fqn, entry in root.state["state_dict_metadata"].items():
            if entry.state:
                print(fqn, entry.state["size"].args, [(c.state["offsets"].args, c.state["sizes"].args) for c in entry.state["chunks"]])
        return
    for key, model in root.items():
        if key.startswith("model"):
            for name, value in model.items():
                if isinstance(value, Made):
                    print(key, name, type(value).place[1], [a.fields[1:] if isinstance(a, Storage) else a for a in value.args[:4]])


def main():
    name = sys.argv[1].replace("-", "_")
    globals()[name](*sys.argv[2:])


if __name__ == "__main__":
    main()

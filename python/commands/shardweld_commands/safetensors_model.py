"""Finished models in safetensors, as their files say what they hold: no tensor byte is read."""
import json
import os
import re
import stat
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, NamedTuple, NoReturn, Tuple

from . import command
from .command import CORRUPT, NOT_FOUND, UNSUPPORTED, Failed

INDEX = "model.safetensors.index.json"
LONGEST_INDEX, LONGEST_HEADER = 256 << 20, 100_000_000
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1, "U16": 2, "I16": 2, "F16": 2,
         "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8}  # safetensors 0.8, tensor.rs (Dtype)


class Tensor(NamedTuple):
    dtype: str
    shape: Tuple[int, ...]
    file: str
    begin: int
    size: int


class Model(NamedTuple):
    """A model in safetensors: its tensors in the order of their names, and what each of its files is known by."""
    directory: str
    tensors: Dict[str, Tensor]
    stamps: Dict[str, Tuple[int, ...]]

    def size(self) -> int:
        return sum(tensor.size for tensor in self.tensors.values())

    def form(self, name: str) -> str:
        return "{0} {1}".format(self.tensors[name].dtype, list(self.tensors[name].shape)) if name in self.tensors else "no such tensor"


def corrupt(path: str, what: str) -> NoReturn:
    raise Failed(CORRUPT, f"{path}: {what}", "copy it again from where it was written")


@contextmanager
def opened(path: str) -> Iterator[int]:
    """A regular file's descriptor."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Failed(NOT_FOUND, f"there is no {path}", "check the path") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Failed(UNSUPPORTED, f"{path} is no regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def stamp(descriptor: int) -> Tuple[int, ...]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def parse(text: bytes, path: str) -> Dict[str, Any]:
    def unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        return dict(pairs) if len(dict(pairs)) == len(pairs) else corrupt(path, "a key comes twice in its JSON")

    try:
        found = json.loads(text.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        corrupt(path, "it is not valid JSON")
    return found if isinstance(found, dict) else corrupt(path, "it is not a JSON object")


def read_header(path: str, descriptor: int) -> Tuple[Dict[str, Tensor], Dict[str, Any]]:
    """The tensors of a safetensors file, which fill it exactly, and its metadata."""
    size = os.fstat(descriptor).st_size
    length = int.from_bytes(os.pread(descriptor, 8, 0), "little")
    if size < 8 or length > min(size - 8, LONGEST_HEADER):
        corrupt(path, f"malformed safetensors header: it claims {length} bytes, the file has {size}")
    entries, tensors = parse(os.pread(descriptor, length, 8), path), {}
    metadata = entries.pop("__metadata__", None) or {}
    for name, entry in entries.items():
        try:
            (begin, end), shape, volume = entry["data_offsets"], entry["shape"], SIZES.get(entry["dtype"], 0)
            if not all(type(number) is int and number >= 0 for number in (begin, end, *shape)):
                raise ValueError
        except (KeyError, TypeError, ValueError):
            corrupt(path, f"tensor {name} has no dtype, shape and data_offsets")
        if not volume:
            raise Failed(UNSUPPORTED, f"{path}: tensor {name}: safetensors dtype {entry['dtype']} is not supported")
        for extent in shape:
            volume *= extent
        if volume != end - begin:
            corrupt(path, f"tensor {name} has not as many bytes as its shape")
        tensors[name] = Tensor(entry["dtype"], tuple(shape), os.path.basename(path), 8 + length + begin, volume)
    at = 8 + length
    for tensor in sorted(tensors.values(), key=lambda one: (one.begin, one.size)):
        at = at + tensor.size if tensor.begin == at else corrupt(path, f"its tensors have a hole or overlap at byte {at}")
    return (tensors, metadata) if at == size else corrupt(path, f"its tensors end at byte {at}, the file at {size}: is it cut short?")


def read_index(path: str) -> Tuple[Dict[str, str], Dict[str, Any]]:
    """weight_map, whose files are plain names, and metadata."""
    with opened(path) as descriptor:
        index = parse(os.pread(descriptor, min(os.fstat(descriptor).st_size, LONGEST_INDEX), 0), path)
    weight_map, metadata = index.get("weight_map"), index.get("metadata")
    if not isinstance(weight_map, dict) or not isinstance(metadata, dict):
        corrupt(path, "it has no weight_map of tensors, or no metadata")
    for file in weight_map.values():
        if not isinstance(file, str) or not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", file):
            corrupt(path, f"it names the file {file}, which is not a plain name")
    return weight_map, metadata


def read_model(directory: str) -> Model:
    """Failed(NOT_FOUND, CORRUPT, UNSUPPORTED) with the first rule of a sound model that a directory breaks."""
    if not os.path.isdir(directory):
        raise Failed(NOT_FOUND, f"there is no directory {directory}", "check the path")
    names = sorted(os.listdir(directory))
    weight_map, metadata = read_index(os.path.join(directory, INDEX)) if INDEX in names else (None, {})
    if weight_map is None and "model.safetensors" not in names:
        command.refuse_checkpoint(directory)
        is_gguf = any(name.endswith(".gguf") for name in names)
        raise Failed(UNSUPPORTED if is_gguf else NOT_FOUND, f"{directory} holds neither model.safetensors nor {INDEX}", "give models in safetensors")
    if "config.json" not in names:
        raise Failed(NOT_FOUND, f"{directory} is not a sound model: config.json is missing", "give models as shardweld merge writes them")
    files = sorted(set(weight_map.values())) if weight_map is not None else ["model.safetensors"]
    stale = [name for name in names if name.endswith(".safetensors") and name not in files]
    if stale:
        corrupt(directory, f"{stale[0]} belongs to another model: it is not in the index, or lies beside model.safetensors")
    model = Model(directory, {}, {})
    for file in files:
        path = os.path.join(directory, file)
        with opened(path) as descriptor:
            model.stamps[file] = stamp(descriptor)
            tensors = read_header(path, descriptor)[0]
        if weight_map is not None and any(weight_map.get(name) != file for name in tensors):
            corrupt(path, f"it holds a tensor that {INDEX} does not name, or has elsewhere")
        model.tensors.update(tensors)
    if weight_map is not None and (len(weight_map) != len(model.tensors) or metadata.get("total_size") != model.size()):
        corrupt(directory, f"{INDEX} names tensors that no file holds, or states another total_size than theirs")
    return model._replace(tensors=dict(sorted(model.tensors.items(), key=lambda item: item[0].encode())))

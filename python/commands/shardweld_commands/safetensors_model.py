"""Finished models in safetensors, as their files say what they hold: no tensor byte is read."""
import os
import re
from typing import Any, BinaryIO, Dict, NamedTuple, NoReturn, Tuple

from .headers import LONGEST_INDEX, Stored, weight_file, weight_index
from .command import CORRUPT, NOT_FOUND, UNSUPPORTED, Failed, refuse_checkpoint
from .files import is_whole, list_of, object_of, opened, parsed, read_bytes, size_of

INDEX = "model.safetensors.index.json"


class Model(NamedTuple):
    """A model in safetensors: its tensors in the order of their names, and what each of its files is known by."""
    directory: str
    tensors: Dict[str, Stored]
    stamps: Dict[str, Tuple[int, ...]]

    def size(self) -> int:
        return sum(tensor.size for tensor in self.tensors.values())

    def form(self, name: str) -> str:
        return f"{self.tensors[name].dtype} {list(self.tensors[name].shape)}" if name in self.tensors else "no such tensor"


def corrupt(path: str, what: str) -> NoReturn:
    raise Failed(CORRUPT, f"{path}: {what}", "copy it again from where it was written")


def stamp(file: BinaryIO) -> Tuple[int, ...]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def read_sums(path: str) -> Dict[str, str]:
    """What a file of a delta says in its metadata of the tensors in it. The program is not asked: there may be thousands of such files."""
    with opened(path) as file:
        room = size_of(file)
        length = int.from_bytes(file.read(8), "little")
        root = object_of(parsed(file.read(length) if length <= room - 8 else None))
    sums = object_of(root.pop("__metadata__", None))
    ends = [end for tensor in root.values() for end in list_of(object_of(tensor).get("data_offsets"))[1:] if is_whole(end)]
    if max(ends, default=-1) != room - 8 - length:
        corrupt(path, "it is no safetensors file, or is cut short")
    return {name: str(sums[name]) for name in root if name in sums}


def read_index(path: str) -> Tuple[Dict[str, str], Dict[str, Any]]:
    """weight_map, whose files are plain names, and metadata."""
    index = weight_index(read_bytes(path, LONGEST_INDEX), "it", may_be_empty=True)
    odd = next((file for file in index.file_of.values() if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", file)), "")
    if index.fault or odd or not isinstance(index.metadata, dict):
        corrupt(path, index.fault or (f"it names the file {odd}, which is not a plain name" if odd else "it has no metadata"))
    return index.file_of, index.metadata


def read_model(directory: str) -> Model:
    """Failed(NOT_FOUND, CORRUPT, UNSUPPORTED) with the first rule of a sound model that a directory breaks."""
    if not os.path.isdir(directory):
        raise Failed(NOT_FOUND, f"there is no directory {directory}", "check the path")
    names = sorted(os.listdir(directory))
    weight_map, metadata = read_index(os.path.join(directory, INDEX)) if INDEX in names else (None, {})
    if weight_map is None and "model.safetensors" not in names:
        refuse_checkpoint(directory)
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
        with opened(path) as weights:
            model.stamps[file] = stamp(weights)
        found = weight_file(directory, file)
        if found.unknown:
            raise Failed(UNSUPPORTED, f"{path}: {found.unknown}")
        if found.fault:
            corrupt(path, found.fault)
        if weight_map is not None and any(weight_map.get(name) != file for name in found.tensors):
            corrupt(path, f"it holds a tensor that {INDEX} does not name, or has elsewhere")
        model.tensors.update(found.tensors)
    if weight_map is not None and (len(weight_map) != len(model.tensors) or metadata.get("total_size") != model.size()):
        corrupt(directory, f"{INDEX} names tensors that no file holds, or states another total_size than theirs")
    return model._replace(tensors=dict(sorted(model.tensors.items(), key=lambda item: item[0].encode())))

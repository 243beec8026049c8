"""Headers of safetensors and GGUF files, and the tensors of pickles, as `shardweld inspect` reads them; no tensor data. What is wrong with a file is told in
its `fault`, what is not known of it in `unknown`."""
import functools
import os
import tempfile
from dataclasses import dataclass, field
from typing import Any, Dict, NamedTuple, Optional, Tuple

from .command import UNSUPPORTED, Failed, ask
from .files import MARK, MIB, object_of, opened, parsed, text_of, whole
from .text import printable

# Bytes of an element, and torch's name. Names: safetensors 0.8 tensor.rs (Dtype).
_DTYPES = """BOOL 1 bool U8 1 uint8 I8 1 int8 U16 2 uint16 I16 2 int16 U32 4 uint32 I32 4 int32 U64 8 uint64 I64 8 int64 F8_E4M3 1 float8_e4m3fn F8_E5M2 1
float8_e5m2 F8_E8M0 1 float8_e8m0fnu F8_E4M3FNUZ 1 float8_e4m3fnuz F8_E5M2FNUZ 1 float8_e5m2fnuz F16 2 float16 BF16 2 bfloat16 F32 4 float32 F64 8 float64
C64 8 complex64""".split()
SIZES = {name: int(size) for name, size in zip(_DTYPES[::3], _DTYPES[1::3])}
_NAMES_OF_TORCH = dict(zip(_DTYPES[2::3], _DTYPES[::3]))


class Stored(NamedTuple):
    """A tensor as a header describes it."""
    dtype: str
    shape: Tuple[int, ...]
    file: str = ""
    begin: int = -1  # of its bytes in the file; -1: it is not told
    size: int = 0


@dataclass
class WeightFile:
    name: str
    tensors: Dict[str, Stored] = field(default_factory=dict)
    metadata: Dict[str, str] = field(default_factory=dict)  # `__metadata__`
    fault: str = ""    # "": its header can be read
    unknown: str = ""  # what in it is not known here


@dataclass
class GgufFile:
    """A GGUF file; shapes have the longest stride first."""
    name: str
    tensors: Dict[str, Tuple[int, ...]] = field(default_factory=dict)
    values: Dict[str, Any] = field(default_factory=dict)   # metadata: texts and whole numbers, None for others
    lengths: Dict[str, int] = field(default_factory=dict)  # entries of those that are lists
    fault: str = ""
    unknown: str = ""
    n_files: int = 1  # of the model

    @property
    def architecture(self) -> str:
        return self.text("general.architecture")

    def text(self, key: str) -> str:
        return text_of(self.values.get(key))

    def number(self, key: str) -> Optional[int]:
        return whole(self.values.get(key))

    def own(self, key: str) -> Optional[int]:
        """A number of the architecture's own ("llama.block_count")."""
        return self.number(f"{self.architecture}.{key}")

    def length(self, key: str) -> int:
        return self.lengths.get(key, 0)


LONGEST_INDEX = 256 * MIB


@dataclass
class WeightIndex:
    """The index of several files, as loaders read it."""
    fault: str = ""
    file_of: Dict[str, str] = field(default_factory=dict)
    metadata: Any = None


def weight_index(text: bytes, name: str, may_be_empty: bool = False) -> WeightIndex:
    root = parsed(text)
    files, fault = object_of(object_of(root).get("weight_map")), ""
    if text.startswith(MARK.encode()):
        fault = f"{name} begins with a byte order mark"
    elif not files and not (may_be_empty and isinstance(object_of(root).get("weight_map"), dict)):
        fault = f"{name} is not a JSON object with a weight_map of tensors"
    for tensor, file in files.items():
        if not isinstance(file, str):
            fault = fault or f"{name} gives the tensor {printable(tensor)} no file name"
        elif "\0" in file or not {"", ".", ".."}.isdisjoint(file.split("/")):
            fault = fault or f"{name} names the file {printable(file)}, which leaves the directory"
    return WeightIndex(fault) if fault else WeightIndex("", dict(sorted(files.items())), root.get("metadata"))


# Of headers.

def _told(directory: str, name: str, kind: str) -> Dict[str, Any]:
    """What the program, which runs no pickle, sees in a file of this kind, by whatever name; a `fault` or something `unknown` where it sees nothing."""
    path = os.path.join(directory, name)
    try:
        with opened(path) as file:
            status = os.fstat(file.fileno())
        return _inspected(path, kind, status.st_size, status.st_mtime_ns)
    except Failed as failed:
        return {"fault": failed.what}


@functools.lru_cache(maxsize=1024)
def _inspected(path: str, kind: str, *_: int) -> Dict[str, Any]:
    """Once for all loaders that read the file."""
    with tempfile.TemporaryDirectory() as place:
        link = os.path.join(place, kind)
        os.symlink(os.path.abspath(path), link)
        words = [place, "--backend", "hf"] if kind.endswith(".bin") else [link]
        try:
            return object_of(ask(["inspect", *words]))
        except Failed as failed:
            return {"unknown" if failed.code == UNSUPPORTED else "fault": failed.what.replace(place + "/", "")}


def weight_file(directory: str, name: str) -> WeightFile:
    told = _told(directory, name, "pytorch_model.bin" if name.endswith(".bin") else "model.safetensors")
    if "tensors" not in told:
        return WeightFile(name, **told)
    tensors = {row["name"]: Stored(_NAMES_OF_TORCH.get(row["dtype"], row["dtype"]), tuple(row["shape"]), name, row.get("begin", -1), row.get("bytes", 0))
               for row in told["tensors"]}
    return WeightFile(name, tensors, told.get("metadata", {}))


def gguf_file(directory: str, name: str) -> GgufFile:
    told = _told(directory, name, "model.gguf")
    if "tensors" not in told:
        return GgufFile(name, **told)
    return GgufFile(name, {row["name"]: tuple(row["shape"]) for row in told["tensors"]}, {**dict.fromkeys(told["keys"]), **told["texts"], **told["numbers"]},
                    told["lengths"])

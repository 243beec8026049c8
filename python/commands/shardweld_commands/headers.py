"""Headers of safetensors and GGUF files, and the tensors of pickles; no tensor data. What is wrong with a file is told in its `fault`, what is not known of
it in `unknown`."""
import json
import math
import os
import struct
import subprocess
import tempfile
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar

from .command import UNSUPPORTED, Failed, run
from .files import MARK, MIB, is_whole, leads_below, object_of, opened, parse_json, parsed, size_of, text_of, whole
from .text import printable, shape_text

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


class Fault(Exception):
    """A file is not what its name says. `is_unknown`: it may be right, but is nothing that is known here."""

    def __init__(self, text: str, is_unknown: bool = False) -> None:
        super().__init__(text)
        self.is_unknown = is_unknown


@dataclass
class WeightFile:
    name: str
    tensors: Dict[str, Stored] = field(default_factory=dict)
    metadata: Dict[str, str] = field(default_factory=dict)  # `__metadata__`
    fault: str = ""    # "": its header can be read
    unknown: str = ""  # what in it is not known here
    places: Dict[str, Tuple[int, int]] = field(default_factory=dict)  # bytes of the file, by tensor


@dataclass
class GgufFile:
    """A GGUF file; shapes have the longest stride first."""
    name: str
    tensors: Dict[str, Tuple[int, ...]] = field(default_factory=dict)
    values: Dict[str, Any] = field(default_factory=dict)   # metadata: texts and whole numbers, None for others
    lengths: Dict[str, int] = field(default_factory=dict)  # entries of those that are lists
    fault: str = ""
    unknown: str = ""

    def text(self, key: str) -> str:
        return text_of(self.values.get(key))

    def number(self, key: str) -> Optional[int]:
        return whole(self.values.get(key))


# Safetensors.

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
        elif not leads_below(file):
            fault = fault or f"{name} names the file {printable(file)}, which leaves the directory"
    return WeightIndex(fault) if fault else WeightIndex("", dict(sorted(files.items())), root.get("metadata"))


class _Pairs(List[Tuple[str, Any]]):
    """A JSON object with all of its fields, also those that come twice."""


_FIELDS = ("dtype", "shape", "data_offsets")
_LONGEST_HEADER = 100_000_000  # the reference implementation's limit
# How a file begins that is called safetensors and is none.
_SIGNS = ((b"PK\3\4", "a file of torch.save, or a zip archive"), (b"GGUF", "a GGUF model"), (b"\x89HDF", "an HDF5 file"), (b"\x1f\x8b", "packed with gzip"),
          (b"\x28\xb5\x2f\xfd", "packed with zstd"), (b"version https://git-lfs", "a pointer of Git LFS, not the file itself"))


def _refuse(what: str) -> Fault:
    return Fault(f"malformed safetensors header: {what}")


def _header_text(file: BinaryIO) -> bytes:
    size, head = size_of(file), file.read(32)
    length = int.from_bytes(head[:8], "little")
    file.seek(8)
    text = file.read(length) if length <= min(size - 8, _LONGEST_HEADER) else b""
    if not text.lstrip(b" \t\r\n").startswith(b"{") or b"\0" in text or len(text) != length:
        for sign, what in _SIGNS:
            if head.startswith(sign):
                raise Fault(f"safetensors file: it is none, but {what}", is_unknown=True)
        raise _refuse("it does not begin with '{', or holds a NUL" if text else f"it claims {length} bytes, the file has {size}")
    return text


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and not isinstance(value, _Pairs) and all(is_whole(one) and 0 <= one < 1 << 63 for one in value)


def _tensor_in(name: str, value: Any) -> Tuple[Stored, int, int]:
    where, pairs = f"tensor {printable(name)}", [pair for pair in value if pair[0] in _FIELDS] if isinstance(value, _Pairs) else []
    fields = dict(pairs)
    if len(pairs) != len(_FIELDS) or len(fields) != len(_FIELDS):
        raise _refuse(f"{where} has not {' and '.join(_FIELDS)}, each of them once")
    dtype, shape, offsets = (fields[key] for key in _FIELDS)
    if not isinstance(dtype, str) or not _are_numbers(shape) or not _are_numbers(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _refuse(f"{where}: dtype is not a text, shape not a list of numbers from 0, or data_offsets not a begin and an end")
    if dtype not in SIZES:
        raise Fault(f"{where}: safetensors dtype {printable(dtype)} is not supported", is_unknown=True)
    if math.prod(shape) * SIZES[dtype] != offsets[1] - offsets[0]:
        raise _refuse(f"{where}: shape {shape_text(tuple(shape))} of {dtype} does not take the {offsets[1] - offsets[0]} bytes that data_offsets give it")
    return Stored(dtype, tuple(shape)), offsets[0], offsets[1]


def _read_safetensors(file: BinaryIO, found: WeightFile) -> None:
    """Of a tensor that comes twice the last counts, as in the reference."""
    text, size = _header_text(file), size_of(file)
    front = 8 + len(text)
    try:
        entries = parse_json(text, pairs=_Pairs)
    except ValueError as error:
        raise _refuse(f"it is not valid JSON ({printable(str(error))})") from None
    metadata = [value for name, value in entries if name == "__metadata__"]
    pairs = metadata[0] if metadata else None
    if len(metadata) > 1 or not (pairs is None or (isinstance(pairs, _Pairs) and all(isinstance(value, str) for _, value in pairs))):
        raise _refuse("__metadata__ is not an object of texts, or comes twice")
    found.metadata = dict(pairs or ())
    for name, value in entries:
        if name != "__metadata__":
            found.tensors[name], begin, end = _tensor_in(name, value)
            found.places[name] = (front + begin, front + end)
    # The tensors lie one after another and fill the data.
    at = front
    for name, (begin, end) in sorted(found.places.items(), key=lambda place: place[1]):
        if end > size or begin != at:
            raise _refuse(f"tensor {printable(name)} " + (
                f"ends at byte {end - front} of the data, which has {size - front}: is the file cut short?" if end > size else
                "overlaps the one before it" if begin < at else f"has a hole of {begin - at} bytes before it"))
        at = end
    if at != size:
        raise _refuse(f"{size - at} bytes follow after the last tensor")


def _read_pickled(file: BinaryIO, found: WeightFile) -> None:
    """What the program, which runs no pickle, sees in a file of torch.save."""
    with tempfile.TemporaryDirectory() as place:
        os.symlink(os.path.abspath(file.name), os.path.join(place, "pytorch_model.bin"))
        done = run(["inspect", place, "--backend", "hf", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise Fault(done.stderr.strip().split("\n")[0].replace("error: ", "", 1).replace(place + "/", ""), is_unknown=done.returncode == UNSUPPORTED)
    found.tensors = {row["name"]: Stored(_NAMES_OF_TORCH[row["dtype"]], tuple(row["shape"])) for row in json.loads(done.stdout)["tensors"]}


# GGUF. Format: versions 2 and 3, ggml's docs/gguf.md; checked as llama.cpp checks it.

_LONGEST_GGUF, _LONGEST_GGUF_TEXT = 256 * MIB, 16 * MIB
_GGUF_TEXT, _GGUF_LIST = 8, 9
_GGUF_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 7: "<B", 10: "<Q", 11: "<q"}
_GGUF_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
# Values and bytes of a block, by GGML's number of the type. Source: gguf 0.19, GGML_QUANT_SIZES.
_GGML_TYPES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40), 10: (256, 84), 11: (256, 110),
               12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
               21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
               34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18)}


class _GgufReader:
    def __init__(self, file: BinaryIO) -> None:
        self.file, self.at, self.size = file, 0, size_of(file)

    def move(self, n: int) -> None:
        if self.at + n > min(self.size, _LONGEST_GGUF):
            raise _odd_gguf("it goes on beyond the file's end: is it cut short?" if self.size < _LONGEST_GGUF else "it is larger than 256 MiB")
        self.at += n

    def take(self, n: int) -> bytes:
        self.move(n)
        return self.file.read(n)

    def skip(self, n: int) -> None:
        self.move(n)
        self.file.seek(n, 1)

    def number(self, form: str = "<Q") -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def text(self) -> str:
        length = self.number()
        if length > _LONGEST_GGUF_TEXT:
            raise _odd_gguf(f"a text of {length} bytes")
        return self.take(length).decode("utf-8", "backslashreplace")

    def value(self, found: GgufFile) -> None:
        key, kind = self.text(), self.number("<I")
        if key in found.values:
            raise _odd_gguf(f"the key {printable(key)} comes twice")
        found.values[key] = self.text() if kind == _GGUF_TEXT else self.number(_GGUF_NUMBERS[kind]) if kind in _GGUF_NUMBERS else None
        if kind == _GGUF_LIST:
            kind, found.lengths[key] = self.number("<I"), self.number()
            for _ in range(found.lengths[key] if kind == _GGUF_TEXT else 0):
                self.skip(self.number())
            self.skip(found.lengths[key] * _GGUF_BYTES.get(kind, 0))
            kind = -1 if kind == _GGUF_LIST else kind
        elif kind in _GGUF_BYTES and kind not in _GGUF_NUMBERS:
            self.skip(_GGUF_BYTES[kind])
        if kind != _GGUF_TEXT and kind not in _GGUF_BYTES:
            raise _odd_gguf("a list of lists" if kind < 0 else f"a value of type {kind}")

    def tensor(self) -> Tuple[str, Tuple[int, ...], int, int]:
        """Name, extents, bytes and where it begins."""
        name, n_dims = self.text(), self.number("<I")
        shape = tuple(self.number() for _ in range(min(n_dims, 5)))[::-1]
        kind = self.number("<I")
        if n_dims <= 4 and kind not in _GGML_TYPES:
            raise Fault(f"{printable(name)} has GGML's type {kind}, which this program does not know", is_unknown=True)
        values, n_bytes = _GGML_TYPES.get(kind, (1, 1))
        if n_dims > 4 or (shape and shape[-1] % values):
            raise _odd_gguf(f"{printable(name)} has {n_dims} dims, or rows that fill no blocks")
        return name, shape, math.prod(shape) // values * n_bytes, self.number()


def _odd_gguf(what: str) -> Fault:
    return Fault(f"malformed GGUF header: {what}")


def _read_gguf(file: BinaryIO, found: GgufFile) -> None:
    reader = _GgufReader(file)
    if reader.take(4) != b"GGUF":
        raise _odd_gguf("it does not begin with GGUF")
    version = reader.number("<I")
    if version not in (2, 3):
        raise Fault(f"GGUF of version {version} (or of another byte order): versions 2 and 3 are read", is_unknown=True)
    n_tensors, n_keys = reader.number(), reader.number()
    for _ in range(n_keys):
        reader.value(found)
    stated = found.number("general.alignment")
    alignment = 32 if stated is None else stated
    if not 0 < alignment < 1 << 32 or alignment & (alignment - 1):
        raise _odd_gguf(f"an alignment of {alignment}")
    tensors = []
    for _ in range(n_tensors):
        tensors.append(reader.tensor())
    data, end = -(-reader.at // alignment) * alignment, 0
    for name, shape, n_bytes, begin in tensors:
        if begin != end or data + end + n_bytes > reader.size or name in found.tensors:
            raise _odd_gguf(f"{printable(name)} " + (f"begins at {begin}, behind the one before it is {end}" if begin != end else
                            "comes twice" if name in found.tensors else "ends beyond the file: is it cut short?"))
        found.tensors[name] = shape
        end = -(-(end + n_bytes) // alignment) * alignment


File = TypeVar("File", WeightFile, GgufFile)


def _read(directory: str, found: File, read: Callable[[BinaryIO, File], None]) -> File:
    try:
        with opened(os.path.join(directory, found.name)) as file:
            read(file, found)
            return found
    except (Fault, Failed, struct.error) as error:
        is_unknown = isinstance(error, Fault) and error.is_unknown
        return type(found)(found.name, fault="" if is_unknown else str(error), unknown=str(error) if is_unknown else "")


def weight_file(directory: str, name: str) -> WeightFile:
    return _read(directory, WeightFile(name), _read_pickled if name.endswith(".bin") else _read_safetensors)


def gguf_file(directory: str, name: str) -> GgufFile:
    return _read(directory, GgufFile(name), _read_gguf)

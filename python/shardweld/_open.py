"""Reading a checkpoint as the model that it would be merged into, with the interface of safetensors.safe_open."""

from __future__ import annotations

import difflib
import json
import math
import operator
import os
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

import numpy as np

from . import _core
from ._calls import StrPath, request_of, result_of, tell
from ._errors import Corrupt, NotFound, UnknownName, UsageError, as_safetensors, error_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Dtype, MergeOptions

_NUMPY = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U64": "u8",
          "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "?", "C64": "c8"}
_ML_DTYPES = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
              "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz"}
_TORCH = {"F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
          "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
          "F4": "float4_e2m1fn_x2", **_ML_DTYPES}


def _typed(library: Any, names: Mapping[str, str], dtype: str) -> Any:
    found = getattr(library, names.get(dtype, ""), None)
    if found is None:
        raise UsageError(f"{library.__name__} has no type for {dtype}", hint="take its bytes with get_bytes, or a newer version")
    return found


def _numpy_type(dtype: str) -> np.dtype[Any]:
    if dtype in _NUMPY:
        return np.dtype(_NUMPY[dtype])
    try:
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise UsageError(f"NumPy has no type for {dtype}", hint='pip install ml_dtypes, or use framework="pt"') from None
    found: np.dtype[Any] = np.dtype(_typed(ml_dtypes, _ML_DTYPES, dtype))
    return found


def _new_numpy(dtype: str, shape: Sequence[int]) -> tuple[Any, int]:
    array = np.empty(shape, _numpy_type(dtype))
    return array, array.__array_interface__["data"][0]


def _new_torch(dtype: str, shape: Sequence[int]) -> tuple[Any, int]:
    import torch

    # Whatever default device is set, as loaders of models do: bytes are read into memory of the processor.
    tensor = torch.empty(tuple(shape), dtype=_typed(torch, _TORCH, dtype), device="cpu")
    return tensor, tensor.data_ptr()


_FRAMEWORKS = {"numpy": _new_numpy, "np": _new_numpy, "pt": _new_torch, "torch": _new_torch, "pytorch": _new_torch}


class Slice:
    """A tensor of which only what is asked for is read: `slice[2:5, :128]`."""

    def __init__(self, model: "SafeOpen", info: Mapping[str, Any]):
        self._model = model
        self._info = info

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._info["shape"])

    def get_shape(self) -> list[int]:
        return list(self._info["shape"])

    def get_dtype(self) -> str:
        return str(self._info["dtype"])

    def __getitem__(self, key: Any) -> Any:
        shape = self._info["shape"]
        box, after = _box_of(key if isinstance(key, tuple) else (key,), shape)
        part = self._model._read(self._info, box)
        return part[after] if any(one != slice(None) for one in after) else part

    def __repr__(self) -> str:
        return f"<{self._info['name']}: {self.get_dtype()} {self.get_shape()}>"


def _box_of(key: tuple[Any, ...], shape: Sequence[int]) -> tuple[list[tuple[int, int]], tuple[Any, ...]]:
    """The ranges to read, and the index into what was read: steps, and dimensions that an integer takes away."""
    if sum(one is Ellipsis for one in key) > 1:
        raise as_safetensors(IndexError)("an index has at most one ellipsis")
    if any(one is Ellipsis for one in key):
        at = next(at for at, one in enumerate(key) if one is Ellipsis)
        key = key[:at] + (slice(None),) * (len(shape) - len(key) + 1) + key[at + 1:]
    if len(key) > len(shape):
        raise as_safetensors(IndexError)(f"too many indices: the tensor has {len(shape)} dimensions")
    box: list[tuple[int, int]] = []
    after: list[Any] = []
    for size, one in zip(shape, key + (slice(None),) * (len(shape) - len(key))):
        if isinstance(one, list) and not one:
            one = slice(0, 0)
        if isinstance(one, slice):
            begin, end, step = one.indices(size)
            if step < 1:
                raise as_safetensors(IndexError)("a slice's step must be positive")
            if any(edge is not None and abs(operator.index(edge)) > size for edge in (one.start, one.stop)):
                raise as_safetensors(IndexError)(f"slice {one.start}:{one.stop} is out of range for a dimension of {size}")
            box.append((begin, max(begin, end)))
            after.append(slice(None, None, step) if step > 1 else slice(None))
            continue
        try:
            at = operator.index(one)  # pyright: ignore[reportArgumentType]
        except TypeError:
            raise as_safetensors(IndexError)(f"an index is a number or a slice, not {type(one).__name__}: read the tensor, and index that") from None
        if isinstance(one, bool) or not -size <= at < size:
            raise as_safetensors(IndexError)(f"index {one} is out of range for a dimension of {size}")
        box.append((at % size, at % size + 1))
        after.append(0)
    return box, tuple(after)


class _PlainFile:
    """One safetensors file, which is read as it is: no model is made of it."""

    def __init__(self, path: str):
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            text = file.read(size) if size < 100_000_000 else b""
        try:
            header = json.loads(text)
            self.metadata: dict[str, str] | None = header.pop("__metadata__", None)
            self.tensors = {name: self._info(name, one) for name, one in header.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise as_safetensors(Corrupt)(f"{path} is no safetensors file", hint="give the directory of a checkpoint, or a file of safetensors") from None
        self._bytes = np.memmap(path, np.uint8, "r", offset=8 + size) if any(one["bytes"] for one in self.tensors.values()) else np.empty(0, np.uint8)

    @staticmethod
    def _info(name: str, one: Mapping[str, Any]) -> dict[str, Any]:
        (begin, end), shape = one["data_offsets"], one["shape"]
        if one["dtype"] == "F4" and shape:  # PyTorch's type has two of them
            shape = [*shape[:-1], shape[-1] // 2]
        return {"name": name, "dtype": one["dtype"], "shape": shape, "bytes": end - begin, "at": begin}

    def read(self, info: Mapping[str, Any], box: Sequence[tuple[int, int]]) -> Any:
        """The bytes of a box, in an array of its own."""
        shape, n_elements = info["shape"], math.prod(info["shape"])
        raw = self._bytes[info["at"]:info["at"] + info["bytes"]]
        if n_elements and (raw.size != info["bytes"] or raw.size % n_elements):
            raise as_safetensors(Corrupt)("the file ends before its tensors do", hint="copy it again from where it was saved")
        whole = raw.reshape(*shape, raw.size // n_elements if n_elements else 0)
        return np.ascontiguousarray(whole[tuple(slice(*one) for one in box)])


class SafeOpen:
    """An open checkpoint, or a file of safetensors. Made by `safe_open`."""

    config: dict[str, Any]  #: config.json, as a merge would write it
    report: dict[str, Any]  #: input, provenance and ledger (docs/using/report.md)

    def __init__(self, request: dict[str, Any], framework: str, device: Any):
        if framework not in _FRAMEWORKS:
            raise UsageError(f"there is no framework {framework!r}", hint='take "numpy" or "pt"')
        self._new = _FRAMEWORKS[framework]
        self._device = device
        self._source = ", ".join(request["inputs"])
        self._plain: _PlainFile | None = None
        self._is_open = True
        if len(request["inputs"]) == 1 and os.path.isfile(self._source):
            self._plain = _PlainFile(self._source)
            self._tensors, self.config, self.report = self._plain.tensors, {}, {}
            return
        self._model, opened = self._opened(request)
        self._tensors = {one["name"]: dict(one, at=at) for at, one in enumerate(opened["tensors"])}
        self.config = opened["config"]
        self.report = opened["report"]

    def _opened(self, request: dict[str, Any]) -> tuple[object, dict[str, Any]]:
        """Where no backend is given, a directory that holds a finished model and no checkpoint is read as that; a merge refuses it."""
        try:
            model, text = _core.open(json.dumps(request), tell)
            return model, result_of(text, self._source)
        except NotFound:
            if "backend" in request["options"] or len(request["inputs"]) > 1:
                raise
            known = {name: value for name, value in request["options"].items() if name in ("hf_config", "prefix")}
            found = json.loads(_core.examine("inspect", json.dumps({**request, "options": known}), None))
            if found.get("found", {}).get("format") != "huggingface":
                raise
        return self._opened({**request, "options": {**request["options"], "backend": "hf"}})

    def __enter__(self) -> "SafeOpen":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._model = self._plain = None
        self._is_open = False

    def keys(self) -> list[str]:
        """All names, as HuggingFace has them, in order."""
        return sorted(self._open_tensors())

    def offset_keys(self) -> list[str]:
        """All names in the order in which reading them is fastest."""
        return sorted(self._open_tensors(), key=lambda name: int(self._tensors[name]["at"]))

    def metadata(self) -> dict[str, str] | None:
        """What a merge writes into the files' own metadata; of a file its own."""
        self._open_tensors()
        return self._plain.metadata if self._plain else {"format": "pt"}

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, name: str) -> Any:
        return self.get_tensor(name)

    def __repr__(self) -> str:
        kind = self.config.get("architectures") or ["safetensors"]
        return f"<{kind[0]} of {len(self)} tensors in {self._source}{'' if self._is_open else ', closed'}>"

    def get_tensors(self) -> dict[str, Any]:
        """All tensors, by name: a state dict."""
        return {name: self.get_tensor(name) for name in self.offset_keys()}

    def get_slice(self, name: str) -> Slice:
        return Slice(self, self._info(name))

    def get_tensor(self, name: str) -> Any:
        info = self._info(name)
        return self._read(info, [(0, size) for size in info["shape"]])

    def get_bytes(self, name: str) -> bytes:
        """A tensor's bytes, row-major and little-endian: for types that NumPy does not have."""
        info = self._info(name)
        if self._plain:
            return bytes(self._plain.read(info, [(0, size) for size in info["shape"]]).tobytes())
        array = np.empty(info["bytes"], np.uint8)
        self._read_into(info, [(0, size) for size in info["shape"]], array.__array_interface__["data"][0], array.nbytes)
        return array.tobytes()

    def _info(self, name: str) -> dict[str, Any]:
        try:
            return self._open_tensors()[name]
        except KeyError:
            near = difflib.get_close_matches(str(name), self._tensors, 1)
            raise as_safetensors(UnknownName)(f"the model has no tensor {name}", hint=f"did you mean {near[0]}?" if near else "keys() lists its tensors") from None

    def _open_tensors(self) -> dict[str, dict[str, Any]]:
        if not self._is_open:
            raise as_safetensors(UsageError)("the checkpoint is closed", hint="read inside the with statement")
        return self._tensors

    def _read(self, info: Mapping[str, Any], box: Sequence[tuple[int, int]]) -> Any:
        shape = [end - begin for begin, end in box]
        array, address = self._new(info["dtype"], shape)
        if self._plain:
            flat = array.reshape(-1)
            as_bytes = flat.view(__import__("torch").uint8).numpy() if hasattr(flat, "numel") else flat.view(np.uint8)
            as_bytes[:] = self._plain.read(info, box).reshape(-1)
            return array if self._device in (None, "cpu") else array.to(self._device)
        size = array.nbytes if hasattr(array, "nbytes") else array.numel() * array.element_size()
        self._read_into(info, box, address, size)
        return array if self._device in (None, "cpu") else array.to(self._device)

    def _read_into(self, info: Mapping[str, Any], box: Sequence[tuple[int, int]], address: int, size: int) -> None:
        self._open_tensors()
        if size == 0:
            return
        fault = _core.read(self._model, info["at"], tuple(one for pair in box for one in pair), address, size)
        if fault is not None:
            raise error_of(json.loads(fault)["error"])


def safe_open(filename: StrPath | Sequence[StrPath], framework: str = "numpy", device: Any = "cpu", *, hf_config: StrPath | None = None,
              dtype: Dtype | None = None, **options: Unpack[MergeOptions]) -> SafeOpen:
    """Opens a checkpoint of any format that merge reads; only metadata are read.

    The tensors are those that merge would write, with HuggingFace's names. `framework` is "numpy" or "pt".
    Options are merge's: `lora="fold"`, `iteration=1000`, `role="actor"`. A file of safetensors, or an open one,
    is read as it is, and so is a directory that holds a finished model.
    """
    source: Any = getattr(filename, "name") if hasattr(filename, "read") else filename
    return SafeOpen(request_of(source, {**options, "hf_config": hf_config, "dtype": dtype}), framework, device)


def load_file(filename: StrPath | Sequence[StrPath], framework: str = "numpy", device: Any = "cpu", *, hf_config: StrPath | None = None,
              dtype: Dtype | None = None, **options: Unpack[MergeOptions]) -> dict[str, Any]:
    """All tensors of a checkpoint, by HuggingFace's names: a state dict."""
    with safe_open(filename, framework, device, hf_config=hf_config, dtype=dtype, **options) as opened:
        return opened.get_tensors()

"""Reading a checkpoint as the model that it would be merged into, with the interface of safetensors.safe_open."""

from __future__ import annotations

import json
from typing import Any, Mapping, Sequence

import numpy as np

from . import _core
from ._calls import StrPath, request_of, result_of, tell
from ._errors import UsageError, error_of

_NUMPY = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U64": "u8",
          "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "?"}
_ML_DTYPES = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu"}
_TORCH = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
          "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
          "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu"}


def _numpy_type(dtype: str) -> np.dtype[Any]:
    if dtype in _NUMPY:
        return np.dtype(_NUMPY[dtype])
    try:
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise UsageError(f"NumPy has no type for {dtype}", hint='install ml_dtypes, or use framework="pt"') from None
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[dtype]))
    return found


def _new_numpy(dtype: str, shape: Sequence[int]) -> tuple[Any, int]:
    array = np.empty(shape, _numpy_type(dtype))
    return array, array.__array_interface__["data"][0]


def _new_torch(dtype: str, shape: Sequence[int]) -> tuple[Any, int]:
    import torch

    # Whatever default device is set, as loaders of models do: bytes are read into memory of the processor.
    tensor = torch.empty(tuple(shape), dtype=getattr(torch, _TORCH[dtype]), device="cpu")
    return tensor, tensor.data_ptr()


_FRAMEWORKS = {"numpy": _new_numpy, "np": _new_numpy, "pt": _new_torch, "torch": _new_torch, "pytorch": _new_torch}


class Slice:
    """A tensor of which only what is asked for is read: `slice[2:5, :128]`."""

    def __init__(self, model: "SafeOpen", info: Mapping[str, Any]):
        self._model = model
        self._info = info

    def get_shape(self) -> list[int]:
        return list(self._info["shape"])

    def get_dtype(self) -> str:
        return str(self._info["dtype"])

    def __getitem__(self, key: Any) -> Any:
        shape = self._info["shape"]
        box, after = _box_of(key if isinstance(key, tuple) else (key,), shape)
        part = self._model._read(self._info, box)
        return part[after] if any(one != slice(None) for one in after) else part


def _box_of(key: tuple[Any, ...], shape: Sequence[int]) -> tuple[list[tuple[int, int]], tuple[Any, ...]]:
    """The ranges to read, and the index into what was read: steps, and dimensions that an integer takes away."""
    if sum(one is Ellipsis for one in key) > 1:
        raise IndexError("an index has at most one ellipsis")
    if Ellipsis in key:
        at = key.index(Ellipsis)
        key = key[:at] + (slice(None),) * (len(shape) - len(key) + 1) + key[at + 1:]
    if len(key) > len(shape):
        raise IndexError(f"too many indices: the tensor has {len(shape)} dimensions")
    box: list[tuple[int, int]] = []
    after: list[Any] = []
    for size, one in zip(shape, key + (slice(None),) * (len(shape) - len(key))):
        if isinstance(one, slice):
            begin, end, step = one.indices(size)
            if step < 1:
                raise IndexError("a slice's step must be positive")
            box.append((begin, max(begin, end)))
            after.append(slice(None, None, step) if step > 1 else slice(None))
        else:
            at = one.__index__()
            if not -size <= at < size:
                raise IndexError(f"index {at} is out of range for a dimension of {size}")
            box.append((at % size, at % size + 1))
            after.append(0)
    return box, tuple(after)


class SafeOpen:
    """An open checkpoint. Made by `safe_open`."""

    def __init__(self, request: dict[str, Any], framework: str, device: Any):
        if framework not in _FRAMEWORKS:
            raise UsageError(f"there is no framework {framework!r}", hint='take "numpy" or "pt"')
        self._new = _FRAMEWORKS[framework]
        self._device = device
        self._model, text = _core.open(json.dumps(request), tell)
        opened = result_of(text)
        self._tensors = {one["name"]: dict(one, at=at) for at, one in enumerate(opened["tensors"])}
        self.config: dict[str, Any] = opened["config"]  #: config.json, as a merge would write it
        self.report: dict[str, Any] = opened["report"]  #: input, provenance and ledger (docs/using/report.md)

    def __enter__(self) -> "SafeOpen":
        return self

    def __exit__(self, *_: Any) -> None:
        self._model = None

    def keys(self) -> list[str]:
        """All names, as HuggingFace has them, in order."""
        return sorted(self._tensors)

    def offset_keys(self) -> list[str]:
        """All names in the order in which reading them is fastest."""
        return list(self._tensors)

    def metadata(self) -> dict[str, str]:
        """What a merge writes into the files' own metadata."""
        return {"format": "pt"}

    def get_slice(self, name: str) -> Slice:
        return Slice(self, self._info(name))

    def get_tensor(self, name: str) -> Any:
        info = self._info(name)
        return self._read(info, [(0, size) for size in info["shape"]])

    def get_bytes(self, name: str) -> bytes:
        """A tensor's bytes, row-major and little-endian: for types that NumPy does not have."""
        info = self._info(name)
        array = np.empty(info["bytes"], np.uint8)
        self._read_into(info, [(0, size) for size in info["shape"]], array.__array_interface__["data"][0], array.nbytes)
        return array.tobytes()

    def _info(self, name: str) -> dict[str, Any]:
        try:
            return self._tensors[name]
        except KeyError:
            raise UsageError(f"the model has no tensor {name}", hint="keys() lists its tensors") from None

    def _read(self, info: Mapping[str, Any], box: Sequence[tuple[int, int]]) -> Any:
        shape = [end - begin for begin, end in box]
        array, address = self._new(info["dtype"], shape)
        size = array.nbytes if hasattr(array, "nbytes") else array.numel() * array.element_size()
        self._read_into(info, box, address, size)
        return array if self._device in (None, "cpu") else array.to(self._device)

    def _read_into(self, info: Mapping[str, Any], box: Sequence[tuple[int, int]], address: int, size: int) -> None:
        if self._model is None:
            raise UsageError("the checkpoint is closed", hint="read inside the with statement")
        if size == 0:
            return
        fault = _core.read(self._model, info["at"], tuple(one for pair in box for one in pair), address, size)
        if fault is not None:
            raise error_of(json.loads(fault)["error"])


def safe_open(filename: StrPath, framework: str = "numpy", device: Any = "cpu", *, hf_config: StrPath | None = None,
              dtype: str | None = None, **options: Any) -> SafeOpen:
    """Opens a checkpoint of any format that merge reads; only metadata are read.

    The tensors are those that merge would write, with HuggingFace's names. `framework` is "numpy" or "pt".
    Options are merge's: `lora="fold"`, `iteration=1000`, `role="actor"`.
    """
    return SafeOpen(request_of(filename, {**options, "hf_config": hf_config, "dtype": dtype}), framework, device)


def load_file(filename: StrPath, framework: str = "numpy", device: Any = "cpu", **options: Any) -> dict[str, Any]:
    """All tensors of a checkpoint, by HuggingFace's names: a state dict."""
    with safe_open(filename, framework, device, **options) as opened:
        return {name: opened.get_tensor(name) for name in opened.offset_keys()}

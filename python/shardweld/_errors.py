"""The one error type of the library, with a subclass for each exit code of the program."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any


class Error(Exception):
    """What ended a call: `code` is the program's exit code, `where` says file and tensor, `hint` what to do."""

    code = 70

    def __init__(self, what: str, where: list[str] | None = None, hint: str = "", code: int | None = None):
        super().__init__(what)
        self.where = list(where or [])
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        parts = [self.args[0]]
        if self.where:
            parts.append("[" + "; ".join(self.where) + "]")
        text = " ".join(parts)
        return text + (f"; hint: {self.hint}" if self.hint else "")


class UsageError(Error, ValueError):
    """The call makes no sense (code 2)."""

    code = 2


class UnknownName(UsageError, KeyError):
    """The model has no tensor of this name (code 2)."""


class NotFound(Error, FileNotFoundError):
    """No checkpoint or model, or an incomplete one (code 3)."""

    code = 3


class Corrupt(Error):
    """A file is damaged or hostile (code 4)."""

    code = 4


class Unsupported(Error):
    """Recognised, but not handled (code 5)."""

    code = 5


class Mismatch(Error):
    """Shapes, dtypes, ranks or config contradict each other (code 6)."""

    code = 6


class IoError(Error, OSError):
    """Reading or writing failed (code 7)."""

    code = 7


class NoSpace(IoError):
    """Disk, quota or inodes are exhausted (code 8)."""

    code = 8


class NoMemory(Error, MemoryError):
    """There is not enough memory (code 9)."""

    code = 9


class Stopped(Error):
    """The merge was stopped; the next one of the same request goes on with what is done (code 11)."""

    code = 11


class TargetRefused(Error, FileExistsError):
    """The target exists or may not be written (code 12)."""

    code = 12


class Differs(Error):
    """A comparison found differences (code 13)."""

    code = 13


class StrictWarning(Error):
    """A warning, where `strict` was asked for (code 14)."""

    code = 14


class Locked(Error):
    """Another run is writing the target (code 15)."""

    code = 15


@functools.lru_cache(maxsize=None)
def _both(kind: type[Any], other: type[Any]) -> type[Any]:
    return type(kind.__name__, (kind, other), {"__module__": kind.__module__, "__doc__": kind.__doc__,
                                               "__reduce__": lambda self: (kind, *Exception.__reduce__(self)[1:])})


def as_safetensors(kind: type[Any]) -> type[Any]:
    """The class of an error of reading, which is a SafetensorError, too, where that package is loaded: nobody else can catch one."""
    other = getattr(sys.modules.get("safetensors"), "SafetensorError", None)
    return _both(kind, other) if other else kind


_BY_CODE = {
    kind.code: kind
    for kind in (UsageError, NotFound, Corrupt, Unsupported, Mismatch, IoError, NoSpace, NoMemory, Stopped,
                 TargetRefused, Differs, StrictWarning, Locked)
}


# What the functions call otherwise than the command line, and options that take no value there.
_PARAMETERS = {"local_dir": "src", "target_dir": "out"}
_SWITCHES = ("overwrite", "restart", "resume", "strict", "tie_word_embedding", "tie_word_embeddings")


def _as_parameter(option: re.Match[str]) -> str:
    name = option["name"]
    value = "True" if name in _SWITCHES else option["value"]
    return _PARAMETERS.get(name, name) + (f"={value}" if value else "")


def python_words(text: str) -> str:
    """A message with options as Python has them: `hf_config=DIR` for `--hf_config DIR`. Commands stay, and other programs' `--local-dir`."""
    parts = text.split("`")
    parts[::2] = (re.sub(r"(?<!\w)--(?!help\b)(?P<name>[a-z]\w*)(?![\w-])(?: (?P<value>[A-Z][A-Z_]*)\b)?", _as_parameter, one) for one in parts[::2])
    return "`".join(parts)


def error_of(fault: dict[str, Any], filename: str | None = None) -> Error:
    """The exception for an error as the extension describes it; `filename`: what was to be read."""
    kind = _BY_CODE.get(fault["code"], Error)
    error = kind(python_words(fault["what"]), fault["where"], python_words(fault["hint"]), fault["code"])
    if isinstance(error, FileNotFoundError):
        error.filename = filename
    return error

"""Files that may be hostile: regular ones only, JSON within limits, texts of theirs made safe to print."""
import json
import os
import re
import stat
from typing import Any, BinaryIO, Callable, Dict, List, Optional, Sequence, Tuple

from ..command import NOT_FOUND, UNSUPPORTED, Failed
from ..files import failed
from ..text import printable

MIB = 1 << 20
MARK = "\ufeff"  # a byte order mark
_DEEPEST_JSON = 64


def listed(texts: Sequence[str]) -> str:
    return ", ".join(printable(text) for text in texts[:8]) + (", ..." if len(texts) > 8 else "")


def opened(path: str) -> BinaryIO:
    """A regular file, whatever its name leads to; never waits for a pipe's other end. Failed for all else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except ValueError:
        raise Failed(NOT_FOUND, f"{path!r} is no path") from None
    except OSError as error:
        raise failed("open", printable(path, 4096), error) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb", MIB)
    os.close(descriptor)
    what = "a FIFO" if stat.S_ISFIFO(mode) else "a directory" if stat.S_ISDIR(mode) else "a special file"
    raise Failed(UNSUPPORTED, f"{printable(path, 4096)} is {what}; expected a regular file")


def size_of(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def leads_below(name: str) -> bool:
    return "\0" not in name and all(part not in ("", ".", "..") for part in name.split("/"))


def _number_in(text: str) -> Any:
    number = int(text) if len(text) <= 20 else float(text)
    return number if -(1 << 63) <= number < (1 << 64) else float(text)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST_JSON + 1):
        level = [inner for one in level if isinstance(one, (dict, list)) for inner in (one.values() if isinstance(one, dict) else one)]
    return bool(level)


def parse_json(text: bytes, pairs: Optional[Callable[[List[Tuple[str, Any]]], Any]] = None) -> Any:
    """The value, with NaN and infinities as Python writes them. ValueError for what is no JSON, or nested deeper than any file of a model."""
    try:
        value = json.loads(text.decode("utf-8"), parse_int=_number_in, object_pairs_hook=pairs)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if pairs is None and _is_too_deep(value):
        raise ValueError("it is nested too deeply")
    if re.search(rb"\\u[dD][89a-fA-F]", text):
        json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")  # UnicodeEncodeError is a ValueError: half a character
    return value


def parsed(text: Optional[bytes]) -> Any:
    """The value; Ellipsis for what is no JSON, None for a file that is not there."""
    try:
        return None if text is None else parse_json(text)
    except ValueError:
        return ...


def object_of(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def whole(value: Any) -> Optional[int]:
    return value if is_whole(value) else None

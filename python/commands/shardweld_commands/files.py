"""Files that may be hostile or somebody else's: what is read is a regular file of a size that is expected, JSON within limits; what is written appears
complete or not at all."""
import errno
import json
import os
import re
import stat
from typing import Any, BinaryIO, Callable, Dict, List, Optional

from .command import CORRUPT, IO, MEMORY, NOT_FOUND, SPACE, UNSUPPORTED, Failed
from .text import printable

MIB = 1 << 20
MARK = "\ufeff"  # a byte order mark
_DEEPEST_JSON = 64
_CODES = {errno.ENOSPC: SPACE, errno.EDQUOT: SPACE, errno.EFBIG: SPACE, errno.ENOMEM: MEMORY, errno.ENOENT: NOT_FOUND, errno.ENOTDIR: NOT_FOUND,
          errno.ENXIO: UNSUPPORTED, errno.ENODEV: UNSUPPORTED}  # the last two: a socket, an absent device


def failed(what: str, path: str, error: OSError) -> Failed:
    """"cannot WHAT PATH: why", with the system's code."""
    return Failed(_CODES.get(error.errno or 0, IO), f"cannot {what} {printable(path, 4096)}: {error.strerror} (errno {error.errno})")


def opened(path: str) -> BinaryIO:
    """A regular file, whatever its name leads to; never waits for a pipe's other end. Failed(NOT_FOUND, IO), and UNSUPPORTED for any other kind."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise failed("open", path, error) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return open(path, "rb", MIB, opener=lambda *_: descriptor)  # with its name
    os.close(descriptor)
    kind = "a directory" if stat.S_ISDIR(mode) else "a FIFO" if stat.S_ISFIFO(mode) else "a device"
    raise Failed(UNSUPPORTED, f"{printable(path, 4096)} is {kind}; expected a regular file")


def size_of(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def read_bytes(path: str, most: int) -> bytes:
    """A regular file, of at most so many bytes: Failed(CORRUPT)."""
    with opened(path) as file:
        try:
            data = file.read(most + 1) if size_of(file) <= most else b""
        except OSError as error:
            raise failed("read", path, error) from None
        if max(len(data), size_of(file)) > most:
            raise Failed(CORRUPT, f"{path} has {max(len(data), size_of(file))} bytes; at most {most} are expected of such a file")
        return data


def write_file(path: str, text: str, is_own: Callable[[bytes], bool]) -> None:
    """The text in a file of that name, on the disk; a link stays one. Replaces an empty file and one whose first bytes are the caller's own, by
    `is_own`; anything else is left as it is: Failed(IO)."""
    path, why = os.path.realpath(path), ""
    if os.path.isfile(path):
        with open(path, "rb") as old:
            head = old.read(4096)
        why = "" if not head or is_own(head) else "it exists and is something else"
    elif os.path.lexists(path):
        why = "it is a directory" if os.path.isdir(path) else "it is not a regular file"
    if why:
        raise Failed(IO, f"{path} is left as it is: {why}", "give another name")
    fresh = f"{path}.partial-{os.urandom(8).hex()}"
    try:
        with open(fresh, "x", encoding="utf-8", errors="replace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError as error:
        told = failed("write", path, error)
        raise Failed(IO if told.code == NOT_FOUND else told.code, told.what) from None
    finally:
        if os.path.lexists(fresh):
            os.unlink(fresh)


# Names and JSON of such files.

def _number_in(text: str) -> Any:
    number = int(text) if len(text) <= 20 else float(text)
    return number if -(1 << 63) <= number < (1 << 64) else float(text)


def parsed(text: Optional[bytes]) -> Any:
    """The value, with NaN and infinities as Python writes them; Ellipsis for what is no JSON, or nested deeper than any file of a model; None for a file
    that is not there."""
    if text is None:
        return None
    try:
        value = json.loads(text.decode("utf-8"), parse_int=_number_in)
        level = [value]
        for _ in range(_DEEPEST_JSON + 1):
            level = [inner for one in level if isinstance(one, (dict, list)) for inner in (one.values() if isinstance(one, dict) else one)]
        if re.search(rb"\\u[dD][89a-fA-F]", text):
            json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")  # half a character is a UnicodeEncodeError, which is a ValueError
        return ... if level else value
    except (ValueError, RecursionError):
        return ...


def object_of(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> List[Any]:
    return value if isinstance(value, list) else []


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def whole(value: Any) -> Optional[int]:
    return value if is_whole(value) else None

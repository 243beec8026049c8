"""Files as a whole: what is read is a regular file of a size that is expected, what is written appears complete or not at all."""
import errno
import os
import secrets
import stat
from typing import Callable

from .command import CORRUPT, IO, MEMORY, NOT_FOUND, SPACE, UNSUPPORTED, Failed

_KINDS = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"))
_CODES = {errno.ENOSPC: SPACE, errno.EDQUOT: SPACE, errno.EFBIG: SPACE, errno.ENOMEM: MEMORY, errno.ENOENT: NOT_FOUND, errno.ENOTDIR: NOT_FOUND}


def failed(what: str, path: str, error: OSError) -> Failed:
    """"cannot WHAT PATH: why", with the system's code."""
    return Failed(_CODES.get(error.errno or 0, IO), f"cannot {what} {path}: {error.strerror} (errno {error.errno})")


def read_bytes(path: str, most: int) -> bytes:
    """A regular file, a link to one, too. Failed(NOT_FOUND, IO); UNSUPPORTED for any other kind, CORRUPT where it has more bytes than `most`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENODEV):
            raise Failed(UNSUPPORTED, f"{path} is a socket or an absent device; expected a regular file") from None
        raise failed("open", path, error) from None
    except ValueError:
        raise Failed(NOT_FOUND, f"{path!r} is no path") from None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = next((kind for is_kind, kind in _KINDS if is_kind(status.st_mode)), "a device")
            raise Failed(UNSUPPORTED, f"{path} is {kind}; expected a regular file")
        try:
            data = file.read(status.st_size + 1) if status.st_size <= most else b""
        except OSError as error:
            raise failed("read", path, error) from None
        if len(data) > most or status.st_size > most:
            raise Failed(CORRUPT, f"{path} has {max(len(data), status.st_size)} bytes; at most {most} are expected of such a file")
        return data


def write_file(path: str, text: str, is_own: Callable[[bytes], bool]) -> None:
    """The text in a file of that name, on the disk; a link stays one. Replaces an empty file and one whose first bytes are the caller's own, by
    `is_own`; anything else is left as it is: Failed(IO)."""
    path = os.path.realpath(path)
    why = ""
    if os.path.isdir(path):
        why = "it is a directory"
    elif os.path.lexists(path) and not os.path.isfile(path):
        why = "it is not a regular file"
    elif os.path.lexists(path):
        with open(path, "rb") as old:
            head = old.read(4096)
        why = "" if not head or is_own(head) else "it exists and is something else"
    if why:
        raise Failed(IO, f"{path} is left as it is: {why}", "give another name")
    fresh = f"{path}.partial-{secrets.token_hex(8)}"
    try:
        with open(fresh, "x", encoding="utf-8", errors="replace") as file:
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                os.replace(fresh, path)
            except BaseException:
                os.unlink(fresh)
                raise
    except OSError as error:
        told = failed("write", path, error)
        raise Failed(IO if told.code == NOT_FOUND else told.code, told.what) from None

"""Brings files into the page cache or out of it, and proves it. Knows files and mincore(2); nothing of what is timed."""
import ctypes
import mmap
import os

from process import Failed

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
N_TRIES = 4


def files_below(directory):
    """All files with content below a directory, sorted."""
    paths = (os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names)
    return sorted(path for path in paths if os.path.getsize(path) > 0)


def cached_pages(path):
    """How many pages of a file are in memory, and how many it has."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        at = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    if at == ctypes.c_void_p(-1).value:
        raise Failed(f"cannot map {path}: {os.strerror(ctypes.get_errno())}")
    n_pages = -(-size // mmap.PAGESIZE)
    told = ctypes.create_string_buffer(n_pages)
    failed = _libc.mincore(at, size, told)
    _libc.munmap(at, size)
    if failed:
        raise Failed(f"mincore of {path}: {os.strerror(ctypes.get_errno())}")
    return sum(told.raw.translate(_LOWEST_BIT)), n_pages


_LOWEST_BIT = bytes(value & 1 for value in range(256))


def make_cold(paths):
    """Afterwards not a page of the files is in memory, else Failed."""
    for attempt in range(N_TRIES):
        for path in paths:
            _drop(path)
        left = sum(cached_pages(path)[0] for path in paths)
        if left == 0:
            return
        _drop_all(attempt)
    raise Failed(f"{left} pages of the input stay in the page cache: nothing cold can be measured here")


def _drop(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _drop_all(attempt):
    """What advice left: pages on their way to the disk, or held by a batch of some core, which root can flush."""
    if attempt > 0 and os.geteuid() == 0:
        os.sync()
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("1")


def make_warm(paths):
    """Afterwards all pages of the files are in memory, else Failed."""
    for _ in range(N_TRIES):
        missing = [path for path in paths if cached_pages(path)[0] < cached_pages(path)[1]]
        if not missing:
            return
        for path in missing:
            read_whole(path)
    raise Failed(f"{missing[0]} does not stay in the page cache: too little memory to measure with a warm cache")


def read_whole(path):
    buffer = bytearray(1 << 22)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass

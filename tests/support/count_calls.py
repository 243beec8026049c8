#!/usr/bin/env python3
"""Counts what a command asks of the file system about a checkpoint: calls that a metadata server answers, by file and
directory, reads of files, and bytes that lie in the page cache afterwards. Prints it as JSON.

    count_calls.py DIRECTORY COMMAND...

Files are taken out of the page cache first. Needs strace; exits with 77 without it, or where it may not trace.
"""
import ctypes
import json
import mmap
import os
import re
import shutil
import subprocess
import sys
import tempfile

_NAMED = ("stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink", "readlinkat", "open", "openat", "openat2", "statfs")
_TRACED = ",".join(_NAMED + ("fstat", "getdents64", "pread64", "read", "preadv"))
_LINE = re.compile(r"^(?:\[pid +)?(?:\d+\]? +)?(\w+)\((.*)\) += (-?\d+)")
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p


def files_below(directory):
    for root, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def forget(directory):
    for path in files_below(directory):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def cached_bytes(path):
    size = os.path.getsize(path)
    if size == 0:
        return 0
    n_pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
    with open(path, "rb") as file:
        address = _LIBC.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0))
    pages = (ctypes.c_ubyte * n_pages)()
    failed = _LIBC.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages)
    _LIBC.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    if failed:
        sys.exit("mincore failed: " + os.strerror(ctypes.get_errno()))
    return sum(page & 1 for page in pages) * mmap.PAGESIZE


def path_of(call, arguments):
    """The path that a call names or, with -y, that its descriptor has."""
    if call in _NAMED and '""' not in arguments:
        named = re.search(r'"((?:[^"\\]|\\.)*)"', arguments)
        if named and named.group(1).startswith("/"):
            return named.group(1)
        beneath = re.match(r"\w+<([^>]*)>", arguments)
        return os.path.join(beneath.group(1) if beneath else os.getcwd(), named.group(1)) if named else ""
    behind = re.match(r"\d+<([^>]*)>", arguments)
    return behind.group(1) if behind else ""


def whole_pages(arguments, size, page=4096):
    """What the system reads for so many bytes at the offset that is the last argument."""
    first = int(arguments.rsplit(",", 1)[1])
    return -(-(first + size) // page) * page - first // page * page


def count(directory, trace):
    asked, read, calls = 0, 0, {}
    of_path = {}
    for line in trace:
        match = _LINE.match(line)
        if not match:
            continue
        call, arguments, result = match.group(1), match.group(2), int(match.group(3))
        path = os.path.normpath(path_of(call, arguments))
        if path != directory and not path.startswith(directory + "/"):
            continue
        if call in ("pread64", "read", "preadv"):
            read += 1
            asked += whole_pages(arguments, max(result, 0)) if call == "pread64" else max(result, 0)
            continue
        by_descriptor = call in ("newfstatat", "statx", "fstat") and (call == "fstat" or '""' in arguments)
        name = "getdents" if call == "getdents64" else "fstat" if by_descriptor else "stat" if "stat" in call else "open" if "open" in call else call
        calls[name] = calls.get(name, 0) + 1
        of_path.setdefault(path, []).append(name)
    return asked, read, calls, of_path


def main():
    directory, command = os.path.realpath(sys.argv[1]), sys.argv[2:]
    if not shutil.which("strace") or subprocess.run(["strace", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit(77)
    forget(directory)
    with tempfile.TemporaryDirectory() as traces:
        # A file for each thread, so that no call stands on two lines.
        strace = ["strace", "-ff", "-y", "-qq", "-o", os.path.join(traces, "of"), "-e", "trace=" + _TRACED]
        code = subprocess.run(strace + command, stdout=subprocess.DEVNULL).returncode
        if code != 0:
            sys.exit(code)
        lines = [line for name in os.listdir(traces) for line in open(os.path.join(traces, name), encoding="utf-8", errors="replace")]
    asked, read, calls, of_path = count(directory, lines)
    files = {path: names for path, names in of_path.items() if os.path.isfile(path)}
    directories = {path: names for path, names in of_path.items() if os.path.isdir(path)}
    n_files = sum(1 for _ in files_below(directory))
    numbers = sorted(len(names) for names in files.values())
    print(json.dumps({
        "files": n_files,
        "calls": dict(sorted(calls.items())),
        "calls_on_files": sum(numbers),
        "median_of_a_file": numbers[len(numbers) // 2] if numbers else 0,
        "most_of_a_file": max(files.items(), key=lambda item: len(item[1]), default=("", [])),
        "directories": len(directories),
        "median_of_a_directory": sorted(len(names) for names in directories.values())[len(directories) // 2] if directories else 0,
        "listings_of_a_directory": max((names.count("open") for names in directories.values()), default=0),
        "calls_on_directories": sum(len(names) for names in directories.values()),
        "calls_on_nothing": len([1 for path in of_path if not os.path.exists(path)]),
        "reads": read,
        "bytes_of_pages_asked": asked,
        "bytes_in_memory": sum(cached_bytes(path) for path in files_below(directory)),
    }, indent=1))


if __name__ == "__main__":
    main()

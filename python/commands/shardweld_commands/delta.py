"""shardweld delta: what changed between two models, in the form that rollout engines take (docs/using/deltas.md).

Tensors are read piece by piece, in parts of the model that become files; threads take the parts in turns. numpy, xxhash and zstandard work on their
bytes without the interpreter's lock.
"""
import fcntl
import importlib
import json
import os
import re
import shutil
import socket
import sys
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .command import CORRUPT, IO, LOCKED, MISMATCH, NOT_FOUND, STOPPED, UNSUPPORTED, Command, Failed, Given, say
from .files import opened
from .safetensors_model import INDEX, Model, read_index, read_model, read_sums, stamp
from .stop import Stop
from .text import counted, human_bytes, percent, table

CHECKSUMS = "xxh3-128"
PIECE, LEAST_PART, MOST_PARTS = 1 << 20, 64 << 20, 128
WORTHWHILE, MOST_THREADS = 0.5, 8  # from that share of the model's bytes on a delta saves little
numpy: Any = None
xxhash: Any = None
zstandard: Any = None


def load_packages() -> None:
    """Failed(NOT_FOUND) that names the packages which this Python has not."""
    missing = []
    for name in ("numpy", "xxhash", "zstandard"):
        try:
            globals()[name] = importlib.import_module(name)
        except ImportError:
            missing.append(name)
    if missing:
        raise Failed(NOT_FOUND, f"shardweld delta needs {' and '.join(missing)}, which {sys.executable} has not",
                     f"{sys.executable} -m pip install {' '.join(missing)}, or on Debian apt-get install {' '.join('python3-' + name for name in missing)}")


# Versions.

def version_name(version: int) -> str:
    return f"weight_v{version:06d}"


def versions_in(directory: str) -> List[int]:
    """The numbers of those in a directory, the last one last."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return sorted(int(name[8:]) for name in names if re.fullmatch(r"weight_v\d{6,13}", name))


def read_history(directory: str) -> Tuple[int, Dict[str, str]]:
    """The last version, 0 where there is none, and the checksum of each tensor that any version lists once the last one is applied."""
    last, digests = 0, {}
    for last in versions_in(directory):
        place = os.path.join(directory, version_name(last))
        weight_map, metadata = read_index(os.path.join(place, INDEX))
        if metadata.get("checksum_format") != CHECKSUMS:
            raise Failed(UNSUPPORTED, f"{place}/{INDEX} does not say that its checksums are {CHECKSUMS}", "name another directory for these versions")
        for path in sorted({os.path.join(place, file) for file in weight_map.values()}):
            digests.update(read_sums(path))
    return last, digests


@contextmanager
def new_directory(target: str) -> Iterator[str]:
    """A directory that gets the target's name at the end, or is removed with what is in it; held by the lock file that the program would have."""
    lock, partial = (os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.shardweld-{trace}") for trace in ("lock", "partial"))
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = " on host ".join(reversed(os.pread(descriptor, 600, 0).decode(errors="replace").split()[:2])) or "that left no name"
            raise Failed(LOCKED, f"another run is writing {target}: process {holder} holds {lock}", "wait for it, or choose another DIR") from None
        if os.path.lexists(target) or not os.path.exists(lock) or not os.path.samestat(os.stat(lock), os.fstat(descriptor)):
            raise Failed(LOCKED, f"another run has just written {target}", "run the command again, with the model of that version as PREV")
        job, restarts = os.environ.get("SLURM_JOB_ID") or "-", os.environ.get("SLURM_RESTART_COUNT") or 0
        os.pwrite(descriptor, f"{socket.gethostname()} {os.getpid()} {job} {restarts} -\n".encode(), 0)
        shutil.rmtree(partial, ignore_errors=True)
        os.mkdir(partial)
        try:
            yield partial
            os.rename(partial, target)
            sync(os.path.dirname(target))
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            os.unlink(lock)
    finally:
        os.close(descriptor)


def sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# The work.

class Work:
    """What the threads of a run are told: when to stop, and how fast to be; and how far they are."""

    def __init__(self, limit: int = 0, has_bar: bool = False) -> None:
        self.limit, self.has_bar, self.done = limit, has_bar, 0  # bytes a second, 0: as fast as it goes
        self.error: Optional[BaseException] = None  # the first one, which ends all threads, and is the run's
        self.asked = Stop()
        self._lock, self._free_at = threading.Lock(), 0.0

    def step(self, moved: int, compared: int = 0) -> None:
        """Before so many bytes are moved from or to the disk."""
        with self._lock:
            self.done += compared
            self._free_at = end = max(self._free_at, time.monotonic()) + moved / self.limit if self.limit else 0
        while not self.error and time.monotonic() < end:
            time.sleep(max(0.0, min(end - time.monotonic(), 0.1)))
        if self.error:
            raise self.error

    def over_parts(self, model: Model, do: Callable[[int, List[str]], Any]) -> List[Any]:
        """What `do` returns of each part of the tensors, in their order."""
        # At most about 128 parts of at least 64 MiB, cut by the tensors' bytes alone: any number of threads makes the same.
        parts: List[List[str]] = [[]]
        enough, size, self.done = max(LEAST_PART, model.size() // MOST_PARTS), 0, 0
        for name, tensor in model.tensors.items():
            if size >= enough:
                parts.append([])
                size = 0
            parts[-1].append(name)
            size += tensor.size
        with ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), MOST_THREADS)) as pool:
            futures = [pool.submit(do, number, names) for number, names in enumerate(parts)]
            left = set(futures)
            while left and not self.error:
                done, left = wait(futures, 0.2, FIRST_EXCEPTION)
                self.error = next(filter(None, (one.exception() for one in done)), None)
                if self.asked.why():
                    self.error = Failed(STOPPED, self.asked.why(), "run the same command again")
                if self.has_bar and left:
                    print(f"\r{100 * self.done // max(1, model.size())} %", end="\r", file=sys.stderr, flush=True)
        if self.error:
            raise self.error
        return [future.result() for future in futures]


class Reader:
    """The bytes of a model's tensors, for one thread. Failed(IO) where a file is not the one whose header was read."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.open: Dict[str, BinaryIO] = {}

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        changed = [name for name, file in self.open.items() if stamp(file) != self.model.stamps[name]]
        for file in self.open.values():
            file.close()
        if changed and not failed:
            raise Failed(IO, f"{os.path.join(self.model.directory, changed[0])} was changed while it was read", "start again when nobody writes to it")

    def pieces(self, name: str) -> Iterator[Any]:
        """Arrays of bytes, one after the other."""
        _, _, file, begin, size = self.model.tensors[name]
        path = os.path.join(self.model.directory, file)
        if file not in self.open:
            self.open[file] = opened(path)
        for at in range(begin, begin + size, PIECE):
            piece = numpy.empty(min(PIECE, begin + size - at), numpy.uint8)
            fill(piece, lambda view, done: os.preadv(self.open[file].fileno(), [view], at + done), f"{path} was cut short while it was read")
            yield piece


def fill(piece: Any, read: Callable[[memoryview, int], int], fault: str) -> None:
    view, done = memoryview(piece), 0
    while done < len(view):
        some = read(view[done:], done)
        if not some:
            raise Failed(IO, fault)
        done += some


class Found(NamedTuple):
    """What was found of a tensor; `stored`: bytes of its zstd, 0: it has not changed."""
    old_digest: str
    new_digest: str
    stored: int


def write_tensor(olds: Reader, news: Reader, name: str, work: Work, out: Any) -> Found:
    old_sum, new_sum, left, stored = xxhash.xxh3_128(), xxhash.xxh3_128(), news.model.tensors[name].size, 0
    # Level 1; one frame that states its size, which zstandard.decompress() needs.
    encoder = zstandard.ZstdCompressor(level=1, write_content_size=True).compressobj(size=left)
    for old, new in zip(olds.pieces(name), news.pieces(name)):
        work.step(2 * len(new), len(new))
        old_sum.update(old)
        new_sum.update(new)
        left -= len(new)
        made = encoder.compress(numpy.bitwise_xor(old, new, out=new)) + (b"" if left else encoder.flush())
        work.step(len(made))
        stored += out.write(made)
    digests = old_sum.hexdigest(), new_sum.hexdigest()
    return Found(*digests, 0 if digests[0] == digests[1] else stored)


def proved(olds: Reader, name: str, source: Any, found: Found, work: Work) -> bool:
    """Whether the frame at the source's place makes the new tensor of the old one."""
    begin, total = source.tell(), xxhash.xxh3_128()
    try:
        is_sized = zstandard.get_frame_parameters(source.read(18)).content_size == olds.model.tensors[name].size
        source.seek(begin)
        work.step(found.stored)
        decoder = zstandard.ZstdDecompressor().stream_reader(source, read_size=1 << 16, closefd=False)
        for old in olds.pieces(name):
            work.step(len(old))
            new = numpy.empty(len(old), numpy.uint8)
            fill(new, lambda view, done: int(decoder.readinto(view)), f"{source.name} was cut short while it was read back")
            total.update(numpy.bitwise_xor(old, new, out=new))
        return bool(is_sized and total.hexdigest() == found.new_digest)
    except zstandard.ZstdError:
        return False


def header_text(found: Dict[str, Found], is_widest: bool = False) -> bytes:
    """The header of a delta's file; as long as it can be where `is_widest`: its place is kept before the sizes are known."""
    entries, at, widest = {}, 0, 2**64 - 1
    for name, one in found.items():
        size, begin, end = (widest, widest, widest) if is_widest else (one.stored, at, at + one.stored)
        if size:
            entries[name] = {"dtype": "U8", "shape": [size], "data_offsets": [begin, end]}
            at += one.stored
    return json.dumps({"__metadata__": {name: found[name].new_digest for name in entries}, **entries}, ensure_ascii=False, separators=(",", ":")).encode()


def write_part(old: Model, new: Model, names: List[str], path: str, work: Work) -> Tuple[Dict[str, Found], int]:
    """Writes what has changed of these tensors, reads it back and proves that it makes the new ones of the old ones. What was found, and the file's
    size, 0 where there is none."""
    room = -(-(8 + len(header_text({name: Found("", "0" * 32, 0) for name in names}, True))) // 8) * 8
    found, at = {}, room
    with Reader(old) as olds, Reader(new) as news, open(path, "x+b") as out:
        for name in names:
            out.seek(at)
            found[name] = write_tensor(olds, news, name, work, out)
            at += found[name].stored
        out.truncate(at)
        text = header_text(found)
        out.seek(0)
        out.write((room - 8).to_bytes(8, "little") + text + b" " * (room - 8 - len(text)))
        out.flush()
        os.fsync(out.fileno())
        os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        at = room
        for name, one in found.items():
            out.seek(at)
            if one.stored and not proved(olds, name, out, one, work):
                raise Failed(CORRUPT, "what was written of the delta reads back otherwise", "check the disk, and run the command again", f"tensor {name}")
            at += one.stored
    if at == room:
        os.unlink(path)
    return found, at if at > room else 0


def complete_version(directory: str, version: int, parts: List[Tuple[Dict[str, Found], int]]) -> int:
    """Gives the parts' files their names, and writes the index beside them. The size of it all."""
    kept = [(number, found) for number, (found, size) in enumerate(parts) if size]
    weight_map: Dict[str, str] = {}
    for at, (number, found) in enumerate(kept):
        file = f"model-{at:05d}-of-{len(kept):05d}.safetensors"
        os.rename(os.path.join(directory, f"part-{number}"), os.path.join(directory, file))
        weight_map.update((name, file) for name, one in found.items() if one.stored)
    metadata = {"version": f"{version:06d}", "base_version": f"{version - 1:06d}", "delta_encoding": "xor", "compression_format": "zstd",
                "checksum_format": CHECKSUMS}
    text = json.dumps({"metadata": metadata, "weight_map": weight_map}, indent=2, ensure_ascii=False).encode() + b"\n"
    with open(os.path.join(directory, INDEX), "xb") as out:
        out.write(text)
    sync(out.name)
    sync(directory)
    return sum(size for _, size in parts) + len(text)


def write_delta(previous: str, model: str, versions: str, work: Work) -> Dict[str, Any]:
    """Writes the next version, and returns what is told of it; what a run leaves that fails is nothing."""
    old, new = read_model(previous), read_model(model)
    others = sorted(name for name in {**old.tensors, **new.tensors} if old.form(name) != new.form(name))
    if others:
        raise Failed(MISMATCH, f"{previous} and {model} differ in the names, dtypes or shapes of {counted(len(others), 'tensor')}",
                     "give two steps of one run, merged with the same options",
                     f"tensor {others[0]}; found {new.form(others[0])}, expected {old.form(others[0])}")
    try:
        os.makedirs(versions, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise Failed(NOT_FOUND, f"{error.filename} is not a directory", "name a directory for the versions") from None
    last, digests = read_history(versions)

    version, target = last + 1, os.path.join(versions, version_name(last + 1))
    with new_directory(target) as partial:
        parts = work.over_parts(new, lambda number, names: write_part(old, new, names, os.path.join(partial, f"part-{number}"), work))
        looked = {name: one for found, _ in parts for name, one in found.items()}
        for name, digest in digests.items():
            found = looked[name].old_digest if name in looked else "no such tensor"
            if found != digest:
                raise Failed(MISMATCH, f"{previous} is not the model that {os.path.join(versions, version_name(last))} leads to",
                             "give the model of that version as PREV, or begin anew in another DIR", f"tensor {name}; found {found}, expected {digest}")
        size = complete_version(partial, version, parts)
    return {"schema": 1, "ok": True, "command": "delta", "dir": target, "directory": target, "version": f"{version:06d}", "base_version": f"{last:06d}", "tensors": len(looked),
            "changed": sum(one.stored > 0 for one in looked.values()), "files": sum(size > 0 for _, size in parts), "delta_bytes": size,
            "model_bytes": new.size(), "base_tensors_proved": len(digests), "pays": size < WORTHWHILE * new.size()}


# The command.

def text_of(told: Dict[str, Any]) -> str:
    n_proved, unlisted = told["base_tensors_proved"], told["tensors"] - told["base_tensors_proved"]
    return table("<<", (
        ("version", told["directory"]),
        ("changed", f"{told['changed']} of {counted(told['tensors'], 'tensor')}, in {counted(told['files'], 'file')}, read back and proved"),
        ("bytes", f"{human_bytes(told['delta_bytes'])} beside the model's {human_bytes(told['model_bytes'])} "
                  f"({percent(told['delta_bytes'], told['model_bytes'])})"),
        ("base", "no version before it: PREV is version 000000" if told["version"] == "000001" else
                 f"{counted(n_proved, 'tensor')} of PREV proved to be those of weight_v{told['base_version']}"
                 + (f"; {unlisted} that no version lists could not be looked at" if unlisted else ""))))


def run(given: Given) -> int:
    work = Work(int(given.get("bw_limit", "0")), sys.stderr.isatty() and "quiet" not in given)
    load_packages()
    told = write_delta(given.get("previous"), given.get("model"), given.get("versions"), work)
    sys.stdout.write(json.dumps(told, indent=2) + "\n" if "json" in given else text_of(told))
    if not told["pays"] and "quiet" not in given:
        say("warning: the delta is more than half as large as the model: sending the model itself costs little more")
    return 0


COMMAND = Command("delta", run)

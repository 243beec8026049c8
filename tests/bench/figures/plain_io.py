"""Plain parallel reading, writing and copying of files: the roof of every merge in the same place. Several processes share the bytes of all files;
a copy reads every byte once and writes it once. Knows files and the page cache; nothing of merges."""
import bisect
import ctypes
import itertools
import mmap
import multiprocessing
import os
import shutil
import tempfile
import time

import page_cache
from process import Failed

FILE = 5_000_000_000  # as --max_shard_size
EXTENT = 1 << 20      # of one read and one write
PAGE = 4096
ON_THE_WAY = 32 << 20  # to the disk, of one process that writes behind

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
_libc.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_uint]
_WAIT_BEFORE, _WRITE, _WAIT_AFTER = 1, 2, 4


class Files:
    """Files laid end to end, as (path, size)."""

    def __init__(self, files):
        self.files = files
        self.begins = list(itertools.accumulate((size for _, size in files), initial=0))
        self.size = self.begins[-1]

    def file_at(self, position):
        """The one that holds a position before the end; empty files hold none."""
        return bisect.bisect_right(self.begins, position) - 1

    def cut(self, rank, n_ranks):
        """Where a rank's share begins: at a file's begin or at a page in a file, so that two never write one page."""
        ideal = self.size * rank // n_ranks
        if ideal >= self.size:
            return self.size
        begin = self.begins[self.file_at(ideal)]
        return begin + (ideal - begin) // PAGE * PAGE

    def parts(self, begin, end, extent=EXTENT):
        """A stretch as (file, offset in it, size, position), none longer than `extent`, ending at multiples of it in their file."""
        while begin < end:
            file = self.file_at(begin)
            offset = begin - self.begins[file]
            size = min(end, self.begins[file + 1], self.begins[file] + (offset // extent + 1) * extent) - begin
            yield file, offset, size, begin
            begin += size


def files_in(directory, size, most=FILE):
    """`size` bytes in files of at most `most`, named by number."""
    return Files([(os.path.join(directory, str(number)), min(most, size - begin)) for number, begin in enumerate(range(0, size, most))])


class Reader:
    """Reads files one after the other, with one open at a time."""

    def __init__(self, files):
        self.files, self.at, self.open = files, None, None

    def read(self, position, into):
        for file, offset, size, at in self.files.parts(position, position + len(into), len(into)):
            if file != self.at:
                if self.open is not None:
                    os.close(self.open)
                self.open, self.at = os.open(self.files.files[file][0], os.O_RDONLY), file
            rest = into[at - position:at - position + size]
            while rest:
                n_bytes = os.preadv(self.open, [rest], offset)
                if n_bytes == 0:
                    raise Failed(f"{self.files.files[file][0]} has changed while it was being measured")
                rest, offset = rest[n_bytes:], offset + n_bytes


class Writer:
    """Writes files that `create` made; with `behind` what is written goes to the disk at once, and its pages are given back."""

    def __init__(self, files, behind):
        self.files, self.behind, self.open, self.on_the_way = files, behind, {}, []

    def create(self, rank, n_ranks):
        for path, size in self.files.files[rank::n_ranks]:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.ftruncate(fd, size)
            _libc.fallocate(fd, 0, 0, size)  # where the file system can
            os.close(fd)

    def write(self, file, offset, data):
        if file not in self.open:
            self.open[file] = os.open(self.files.files[file][0], os.O_WRONLY)
        fd, at, size = self.open[file], offset, len(data)
        while data:
            n_bytes = os.pwrite(fd, data, at)
            data, at = data[n_bytes:], at + n_bytes
        if self.behind:
            _libc.sync_file_range(fd, offset, size, _WRITE)
            self.on_the_way.append((fd, offset, size))
            if len(self.on_the_way) * EXTENT > ON_THE_WAY:
                self._finish_oldest()

    def _finish_oldest(self):
        fd, offset, size = self.on_the_way.pop(0)
        _libc.sync_file_range(fd, offset, size, _WAIT_BEFORE | _WRITE | _WAIT_AFTER)
        os.posix_fadvise(fd, offset, size, os.POSIX_FADV_DONTNEED)

    def finish(self, sync):
        while self.on_the_way:
            self._finish_oldest()
        for fd in self.open.values():
            if sync:
                os.fsync(fd)
            os.close(fd)


def _one(rank, n_ranks, source, target, how, sync, barrier, told):
    try:
        told.put(_timed(rank, n_ranks, source, target, how, sync, barrier))
    except BaseException:
        barrier.abort()  # else the others wait for it
        raise


def _timed(rank, n_ranks, source, target, how, sync, barrier):
    """One process of a pass: its begin, its end, its processor time. Its buffer is touched before the clock starts, and of noise: nothing is gained by compressing it."""
    buffer = mmap.mmap(-1, EXTENT)
    buffer.write(os.urandom(EXTENT))
    view = memoryview(buffer)
    reader, writer = Reader(source), Writer(target, how == "copy_behind")
    barrier.wait()
    begin, cpu = time.perf_counter(), time.process_time()
    if how != "read":
        writer.create(rank, n_ranks)
        barrier.wait()
    files = source if how == "read" else target
    for file, offset, size, position in files.parts(files.cut(rank, n_ranks), files.cut(rank + 1, n_ranks)):
        if how != "write":
            reader.read(position, view[:size])
        if how != "read":
            writer.write(file, offset, view[:size])
    writer.finish(sync)
    return begin, time.perf_counter(), time.process_time() - cpu


def _pass(source, directory, n_ranks, how, sync):
    """From the first begin to the last end."""
    target = files_in(tempfile.mkdtemp(prefix="plain.", dir=directory), source.size)
    context = multiprocessing.get_context("fork")
    barrier, told = context.Barrier(n_ranks), context.SimpleQueue()
    ranks = [context.Process(target=_one, args=(rank, n_ranks, source, target, how, sync, barrier, told)) for rank in range(n_ranks)]
    try:
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        if any(rank.exitcode != 0 for rank in ranks):
            raise Failed(f"plain {how} of {len(source.files)} files in {directory} failed")
        begins, ends, cpu = zip(*(told.get() for _ in ranks))
    finally:
        shutil.rmtree(os.path.dirname(target.files[0][0]))
    wall = max(ends) - min(begins)
    return {"wall_s": wall, "cpu_s": sum(cpu), "gbs": source.size / 1e9 / wall}


def measure(directory, n_ranks, inputs, hows, sync=False, cold=False):
    """Figures of the quickest of some of write, read, copy and copy_behind, of the bytes of `inputs`; needs room for as many in `directory`. With
    `cold` the inputs leave the page cache before each."""
    source = Files([(path, os.path.getsize(path)) for path in inputs])
    found = []
    for how in hows:
        if cold:
            page_cache.make_cold(inputs)
        found.append(_pass(source, directory, n_ranks, how, sync))
    return max(found, key=lambda one: one["gbs"])


def copying(directory, n_ranks, inputs, sync=False, cold=False):
    """The roof: the faster way of copying, as a merge may take either."""
    return measure(directory, n_ranks, inputs, ("copy", "copy_behind"), sync, cold)

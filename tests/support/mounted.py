#!/usr/bin/env python3
"""Holds a mounted model against the directory that a merge wrote: names, sizes and bytes, read whole, in pieces, past the cache, mapped, and by
several threads at once.

    mounted.py MERGED MOUNTPOINT [SEED]
"""
import mmap
import os
import pathlib
import random
import re
import sys
import threading

# What only a merge that has read the tensors knows.
CARD = re.compile(rb"; (no value is|values of [^;|]* are) NaN or infinite")
REPORT = "shardweld_report.json"
PIECES = 40
faults = []


def names(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.name != REPORT)


def expect(found, wanted, what):
    if found != wanted and len(faults) < 10:
        at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), min(len(found), len(wanted)))
        faults.append(f"{what}: {len(found)} bytes, {len(wanted)} expected, other ones from byte {at} on")


def pieces(size, chance):
    """Offsets and lengths: at random, over strips' ends, over the end of the file, and none."""
    yield from ((0, 0), (size, 10), (max(size - 3, 0), 10), (1, 1))
    for edge in range(1 << 20, size, 1 << 20):
        yield edge - 5, 11
    for _ in range(PIECES):
        begin = chance.randrange(size + 1)
        yield begin, chance.choice((1, 7, 100, 4096, 70000, 1 << 20, 3 << 20))


def compare_pieces(path, wanted, chance):
    fd = os.open(path, os.O_RDONLY)
    for begin, length in pieces(len(wanted), chance):
        expect(os.pread(fd, length, begin), wanted[begin:begin + length], f"{path}, {length} bytes at {begin}")
    os.close(fd)


def compare_direct(path, wanted, chance):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    place = mmap.mmap(-1, 2 << 20)
    for _ in range(5):
        begin = chance.randrange(len(wanted) // 512 + 1) * 512
        n = os.preadv(fd, [place], begin)
        expect(place[:n], wanted[begin:begin + (2 << 20)], f"{path}, past the cache at {begin}")
    os.close(fd)


def compare_mapped(path, wanted):
    if wanted:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            for begin in range(len(wanted) - 1, -1, -(1 << 18)):  # backwards
                expect(mapped[begin:begin + 100], wanted[begin:begin + 100], f"{path}, mapped at {begin}")


def compare_all(merged, mounted, seed):
    chance = random.Random(seed)
    for name in names(merged):
        wanted = (merged / name).read_bytes()
        path = mounted / name
        if name == "README.md":
            wanted = CARD.sub(b"", wanted)
        if not path.exists() or path.stat().st_size != len(wanted):
            faults.append(f"{path} is not there, or has another size than {len(wanted)}")
            continue
        compare_pieces(path, wanted, chance)
        compare_direct(path, wanted, chance)
        compare_mapped(path, wanted)
        expect(path.read_bytes(), wanted, str(path))


def main():
    merged, mounted = map(pathlib.Path, sys.argv[1:3])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    if names(merged) != names(mounted):
        faults.append(f"{mounted} has {names(mounted)}, not {names(merged)}")
    threads = [threading.Thread(target=compare_all, args=(merged, mounted, seed + i)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

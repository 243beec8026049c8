"""Runs one command and says what it took: wall and CPU seconds, bytes from the disk, and in sampled runs the peak of memory.
Knows processes; nothing of merges."""
import json
import os
import subprocess
import time
from dataclasses import dataclass

SAMPLE_S = 0.005
TREE_S = 0.05  # between two looks at all processes


class Failed(Exception):
    """A command did not do what it must."""


@dataclass
class Run:
    wall_s: float
    cpu_s: float            # user and system, of the command and all that it waited for
    disk_read_bytes: int    # what the kernel fetched from devices for them
    peak_bytes: int = 0     # of anonymous and shared memory of all its processes together; 0 when not sampled


def run(command, log, sampled=False, codes=(0,)):
    """Runs a command with its output in the file `log`; Failed with the end of it on another exit code than `codes`.
    Sampled runs look at memory every 5 ms and are not to be timed; mpirun itself is left out of the sum."""
    with open(log, "wb") as out:
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        left_out = child.pid if command[0] == "mpirun" else None
        peak, (_, status, usage) = _sample(child.pid, left_out) if sampled else (0, os.wait4(child.pid, 0))
        wall = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in codes:
        raise Failed(f"exit code {child.returncode} of {' '.join(map(str, command))}\n{tail(log)}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_inblock * 512, peak)


def tail(log, n_bytes=3000):
    with open(log, "rb") as file:
        return file.read()[-n_bytes:].decode(errors="replace")


def said_last(log):
    """The JSON in the last line."""
    return json.loads(tail(log).strip().splitlines()[-1])


def _sample(root, left_out):
    """The peak of memory until `root` ends, and what wait4 said then."""
    peak, members, looked = 0, [root], 0.0
    while True:
        ended = os.wait4(root, os.WNOHANG)
        if ended[0] != 0:
            return peak, ended
        now = time.perf_counter()
        if now - looked > TREE_S:
            members, looked = tree_of(root), now
        peak = max(peak, sum(memory_of(pid) for pid in members if pid != left_out))
        time.sleep(SAMPLE_S)


def tree_of(root):
    """A process and all below it."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name in parentheses may hold anything; the parent is the second field behind it.
                    children.setdefault(int(file.read().rpartition(b")")[2].split()[1]), []).append(int(name))
            except OSError:
                pass
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def memory_of(pid):
    """RssAnon + RssShmem: page cache and mapped files apart. 0 for what has ended."""
    total = 0
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith((b"RssAnon:", b"RssShmem:")):
                    total += int(line.split()[1]) * 1024
    except OSError:
        pass
    return total

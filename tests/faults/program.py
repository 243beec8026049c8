"""Runs merges with faults injected, and tells what came of them: exit code, messages, counts, what lies where the model should be.
Knows the injecting library (inject/) and the launcher; nothing of what is right."""
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field

CALLS = ("open", "read", "write", "fsync", "writeback", "hint", "reserve", "resize", "rename", "mkdir", "unlink", "close", "stat", "list", "allocate", "lock")
SIDES = ("none", "input", "output", "report")
PHASES = ("survey", "bind", "create", "execute", "publish", "report")
TIME_LIMIT_S = 60
_HOSTILE_TO_TESTS = ("SHARDWELD_FAULT", "LD_PRELOAD")


class Failed(Exception):
    """What is promised did not hold."""


@dataclass(frozen=True)
class Struck:
    """A call that a fault met."""
    rank: int
    phase: str
    side: str
    call: str
    path: str


@dataclass
class Outcome:
    code: int               # negative: the signal that ended it
    errors: list            # shardweld's own errors, each with where it happened and what to do, on one line
    stderr: str
    wall_s: float
    seen: list = field(default_factory=list)    # by rank: Counter of (phase, side, call)
    struck: list = field(default_factory=list)  # of Struck


class Program:
    """shardweld with the library in front of it. Everything happens below `work`."""

    def __init__(self, binaries, work):
        self.shardweld = os.path.join(binaries, "shardweld")
        self.library = os.path.join(binaries, "../lib/faults.so")
        for path in (self.shardweld, self.library):
            if not os.path.exists(path):
                raise Failed(f"{path} is missing: build it first (--bin DIR)")
        self.work = work
        self.counts = os.path.join(work, "counts")
        self.report = os.path.join(work, "report.json")

    def run(self, arguments, ranks, faults, places, directory=None, meanwhile=None):
        """One run of `shardweld ARGUMENTS`; `places`: directories of the input and of what is around the target. `meanwhile`: called with the process
        that was started."""
        shutil.rmtree(self.counts, ignore_errors=True)
        os.makedirs(self.counts)
        if os.path.exists(self.report):
            os.remove(self.report)
        launcher = ["mpirun", "-n", str(ranks), "--bind-to", "none"] if ranks > 1 else []
        injecting = ["env", f"LD_PRELOAD={self.library}", f"SHARDWELD_FAULTS={faults}", f"SHARDWELD_FAULT_COUNTS={self.counts}",
                     f"SHARDWELD_FAULT_INPUT={places[0]}", f"SHARDWELD_FAULT_OUTPUT={places[1]}", f"SHARDWELD_FAULT_REPORT={self.report}"]
        code, stderr, wall = _run_whole([*launcher, *injecting, self.shardweld, *arguments], directory, meanwhile)
        errors = _errors_in(stderr)
        return Outcome(code, errors, stderr, wall, [self._seen(rank) for rank in range(ranks)],
                       [struck for rank in range(ranks) for struck in self._struck(rank)])

    def has_struck(self):
        """Whether a fault has met the run that goes on."""
        return any(name.startswith("struck.") and os.path.getsize(os.path.join(self.counts, name)) for name in os.listdir(self.counts))

    def _seen(self, rank):
        """Layout: Counts in inject/injector.cpp."""
        counts = Counter()
        path = os.path.join(self.counts, f"counts.{rank}")
        if not os.path.exists(path):
            return counts
        with open(path, "rb") as file:
            numbers = [n for (n,) in struct.iter_unpack("=Q", file.read())]
        for i, n in enumerate(numbers[:len(PHASES) * len(SIDES) * len(CALLS)]):
            at, call = divmod(i, len(CALLS))
            phase, side = divmod(at, len(SIDES))
            if n:
                counts[PHASES[phase], SIDES[side], CALLS[call]] = n
        return counts

    def _struck(self, rank):
        path = os.path.join(self.counts, f"struck.{rank}")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [Struck(rank, *line.rstrip("\n").split("\t")) for line in file]


def _environment():
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_HOSTILE_TO_TESTS)}
    # More ranks than cores, root in containers, the launcher's files away from those under test.
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                       OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_hwloc_base_binding_policy="none", OMPI_MCA_orte_tmpdir_base="/dev/shm")
    return environment


def _run_whole(command, directory, meanwhile):
    """Exit code, standard error and seconds; a run that does not end is killed with all its processes, code None."""
    begin = time.monotonic()
    # An mpirun that tells a rank which has just ended to end is ended itself by SIGPIPE, mostly not, and then the ranks' code is lost. It is started
    # with the signal ignored; its ranks have it as usual again.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=directory, env=_environment(),
                             start_new_session=True, restore_signals=command[0] != "mpirun")
    if meanwhile:
        meanwhile(child)
    try:
        _, stderr = child.communicate(timeout=TIME_LIMIT_S)
        code = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        _, stderr = child.communicate()
        code = None
    return code, stderr.decode(errors="replace"), time.monotonic() - begin


def content_of(directory):
    """All names below a directory with their bytes' digests; None when there is no directory."""
    if not os.path.isdir(directory):
        return None
    content = {}
    for root, directories, files in os.walk(directory):
        for name in directories:
            content[os.path.relpath(os.path.join(root, name), directory) + "/"] = ""
        for name in files:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                content[os.path.relpath(path, directory)] = digest_of(name, file.read())
    return content


def digest_of(name, data):
    """Of a run's report, which has times in it, only whether it is whole and tells of a success."""
    if name != "shardweld_report.json":
        return hashlib.sha256(data).hexdigest()
    try:
        return f"exit code {json.loads(data)['exit']['code']}"
    except ValueError:
        return "broken"


def _errors_in(stderr):
    errors, follows = [], False
    for line in stderr.splitlines():
        if line.startswith("error: "):
            errors.append(line)
            follows = True
        elif follows and line.startswith("  "):
            errors[-1] += "; " + line.strip()
        else:
            follows = False
    return errors

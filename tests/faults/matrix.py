"""Which faults are tried: every call that a merge makes, in every phase, on every rank, with every failure it can have. Knows the calls counted in a run
without faults; nothing of outcomes."""
import errno
import itertools
from dataclasses import dataclass

from verdict import CHANGES

ALWAYS = 0
_MOST = 4
# By side and call: errno names that this call can meet, most usual first.
_ERRORS = {
    "open": {"input": ("EIO", "EACCES", "ESTALE", "EINTR"), "output": ("EIO", "ENOSPC", "EDQUOT", "EACCES", "EINTR"), "report": ("ENOSPC", "EACCES")},
    "read": {"input": ("EIO", "ESTALE", "EINTR"), "output": ("EIO", "EINTR"), "report": ()},
    "write": {"output": ("EIO", "ENOSPC", "EDQUOT", "EINTR"), "report": ("ENOSPC", "EIO")},
    "fsync": {"output": ("EIO", "ENOSPC", "EDQUOT", "EINTR"), "report": ("EIO",)},
    "writeback": {"output": ("EIO", "ENOSPC", "EINTR")},
    "hint": {"output": ("EIO",)},
    "reserve": {"output": ("ENOSPC", "EDQUOT", "EOPNOTSUPP", "EINTR")},
    "resize": {"output": ("EIO", "ENOSPC", "EINTR"), "report": ("EIO",)},
    "rename": {"output": ("EIO", "EACCES", "ENOSPC"), "report": ("EIO",)},
    "mkdir": {"output": ("EIO", "EACCES", "ENOSPC", "EDQUOT")},
    "unlink": {"output": ("EIO", "EACCES"), "report": ()},
    "close": {"input": ("EIO",), "output": ("EIO", "ENOSPC", "EDQUOT", "EINTR"), "report": ("EIO",)},
    "stat": {"input": ("EIO", "EACCES", "ESTALE"), "output": ("EIO", "EACCES"), "report": ()},
    "list": {"input": ("EIO",), "output": ("EIO",)},
    "allocate": {"none": ("ENOMEM",)},
}


@dataclass(frozen=True)
class Fault:
    """What one line of SHARDWELD_FAULTS says."""
    rank: int
    phase: str
    side: str
    call: str
    action: str         # error, short, slow, or a change of the file
    error: str = ""     # of `error`
    nth: int = 1
    times: int = 1
    path: str = ""
    milliseconds: int = 100

    def text(self):
        do = {"error": f"error:{getattr(errno, self.error)}" if self.error else "", "slow": f"slow:{self.milliseconds}"}.get(self.action, self.action)
        return (f"call={self.call},side={self.side},phase={self.phase},rank={self.rank},nth={self.nth},times={self.times},do={do}"
                + (f",path={self.path}" if self.path else ""))

    def __str__(self):
        what = self.error or self.action
        return f"rank {self.rank}, {self.phase}, {self.side}: {what} at {self.call} {self.nth}" + (f" and all later" if self.times == ALWAYS else "")


def faults_of(stage, seen, effort):
    """All faults for the calls of a run; `seen`: Counter of (phase, side, call) by rank. Effort "few": one of each kind of call, on one of the ranks that
    make it; "quick": on each; "full": at the first, middle and last call, with every failure; "half": every second one of these; "more": the same as
    "full" at up to _MOST calls, spread evenly."""
    if effort == "half":
        yield from itertools.islice(faults_of(stage, seen, "full"), 0, None, 2)
        return
    for number, key in enumerate(sorted(set().union(*seen))):
        ranks = [rank for rank, counts in enumerate(seen) if counts[key]]
        for rank in [ranks[number % len(ranks)]] if effort == "few" else ranks:
            yield from _of_call(stage, rank, *key, seen[rank][key], effort)


def _of_call(stage, rank, phase, side, call, n, effort):
    for nth in _positions(n, effort):
        yield from _at(rank, phase, side, call, nth, effort)
    yield from _long_ones(rank, phase, side, call, effort)
    if side == "input" and call == "read" and phase in ("bind", "execute") and effort != "few":
        yield from _changes(stage, rank, phase, n, effort)


def _spread(n):
    most = min(n, _MOST)
    return sorted({1 + i * (n - 1) // max(1, most - 1) for i in range(most)})


def _positions(n, effort):
    return {"few": [n], "quick": [(n + 1) // 2], "full": sorted({1, (n + 1) // 2, n}), "more": _spread(n)}[effort]


def _at(rank, phase, side, call, nth, effort):
    errors = _ERRORS.get(call, {}).get(side, ())
    for error in errors[:1] if effort in ("quick", "few") else errors:
        times = 3 if error == "EINTR" else 1
        yield Fault(rank, phase, side, call, "error", error, nth, times)


def _long_ones(rank, phase, side, call, effort):
    """Everything from some call on: a device that is gone, a disk that stays full, transfers in small parts, a slow file."""
    if effort == "few":
        return
    if call in ("read", "write") and side in ("input", "output"):
        yield Fault(rank, phase, side, call, "short", times=ALWAYS)
        if effort != "quick":
            yield Fault(rank, phase, side, call, "slow", times=5)
    if call == "write" and side == "output":
        yield Fault(rank, phase, side, call, "error", "ENOSPC", times=ALWAYS)
    if call == "read" and side == "input" and effort != "quick":
        yield Fault(rank, phase, side, call, "error", "EIO", times=ALWAYS)


def _changes(stage, rank, phase, n, effort):
    changes = CHANGES if effort != "quick" else (CHANGES[(n + rank + len(phase)) % len(CHANGES)], "scribble")
    for change, ending in itertools.product(changes, stage.scenario.data):
        yield Fault(rank, phase, "input", "read", change, path=ending)

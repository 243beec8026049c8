"""What a watch keeps for people, programs and the next watch: a line of JSON for each event in OUT/watch.jsonl, and counts for Prometheus."""
import calendar
import fcntl
import json
import os
import re
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Set

from ..command import IO, LOCKED, Failed

DIARY = "watch.jsonl"
PLAIN_NAME = re.compile(r"(?!-|\.{1,2}$)[A-Za-z0-9._=-]+")  # what commands may be told: no shell reads anything into it, and no program an option


def job() -> str:
    """Slurm's job that this process runs in, "" elsewhere."""
    return os.environ.get("SLURM_JOB_ID", "")


def _is_same_job(earlier: str) -> bool:
    """Whether the batch system has ended an earlier run of this job, and started it again."""
    restarts = os.environ.get("SLURM_RESTART_COUNT", "")
    return job() == earlier != "" and restarts.isdigit() and int(restarts) > 0


@dataclass
class Chain:
    """The deltas in a directory, as far as watches made them."""
    step: str = ""      # whose model the last version leads to; the next delta leads from it
    number: int = 0
    version: int = 0    # 0: the versions begin with the step
    done: Set[str] = field(default_factory=set)  # steps that have theirs, or that they begin with
    begun: Dict[str, Any] = field(default_factory=dict)  # the event of a delta that has not been told of since


@dataclass
class Earlier:
    """What earlier watches wrote."""
    removed: Dict[str, str] = field(default_factory=dict)       # steps that --keep removed: the print of their files
    owed: Dict[str, List[str]] = field(default_factory=dict)    # of each step, what is still to be done behind its merge
    chains: Dict[str, Chain] = field(default_factory=dict)      # by directory of deltas
    numbers: Dict[str, int] = field(default_factory=dict)       # of steps
    idle_since: Optional[float] = None  # when something was new, as this very job has seen it in an earlier run; seconds since 1970
    job: str = ""
    holder: str = "a process that left no name"

    def read(self, line: bytes) -> None:
        """A line of a diary; what is no event is passed over."""
        with suppress(ValueError, TypeError):
            row = json.loads(line)
            if isinstance(row, dict):
                self._take(row)

    def _take(self, row: Dict[str, Any]) -> None:
        event, step = str(row.get("event")), str(row.get("step"))
        if event == "watching":
            self.holder = f"process {row.get('process')} on host {row.get('host')}"
            if not self.job or row.get("job") != self.job:
                self.job, self.idle_since = str(row.get("job")), _moment(row)
        elif event in ("merging", "made", "failed", "lost"):
            self.idle_since = _moment(row)
        if not PLAIN_NAME.fullmatch(step):
            return
        if isinstance(row.get("number"), int):
            self.numbers[step] = row["number"]
        if isinstance(row.get("owes"), list):
            self.owed[step] = [str(duty) for duty in row["owes"]]
        chain = self.chains.setdefault(str(row.get("directory")), Chain()) if event.startswith("delta") else Chain()
        if event == "removed":
            self.removed[step] = str(row.get("inputs"))
        elif event == "merging":
            self.removed.pop(step, None)
        if event in ("merging", "made"):  # a model that is made anew has no delta yet
            for one in self.chains.values():
                one.done.discard(step)
        elif event == "delta_begun":
            chain.begun = row
        elif event == "delta_failed":
            chain.begun = {}
        elif event == "delta":
            chain.step, chain.number, chain.version, chain.begun = step, int(row.get("number", 0)), int(row.get("version", 0)), {}
            chain.done.add(step)


def _moment(row: Dict[str, Any]) -> Optional[float]:
    try:
        return float(calendar.timegm(time.strptime(str(row.get("time")), "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None


class Diary:
    """Events, appended; `shown` gets each line, too. What cannot be written is said once, with `warn`, and ends nothing. It is locked, which ends with
    this process: Failed(LOCKED) where another watch has it, Failed(IO) where something else than a file has its name."""

    def __init__(self, out: str, shown: Optional[Callable[[str], None]], warn: Callable[[str], None]) -> None:
        self._shown, self._warn, self._is_failing = shown, warn, False
        path = os.path.join(out, DIARY)
        hint = "no link, directory or FIFO may have its name"
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError as error:
            raise Failed(IO, f"{path} cannot be written: {error.strerror}", hint) from None
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise Failed(IO, f"{path} is no regular file", hint)
        is_held = False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_held = True
        except OSError as error:
            warn(f"{path} cannot be locked ({error.strerror}): see to it that no other watch has this OUT")
        self.earlier = Earlier()
        line = b"\n"
        with open(os.dup(self._file), "rb") as text:
            for line in text:
                self.earlier.read(line)
        # The batch system has ended the earlier run of this job; a node that was lost cannot give its lock back.
        if is_held and not _is_same_job(self.earlier.job):
            raise Failed(LOCKED, f"another run is writing {out}: {self.earlier.holder} holds {path}", "there is one watch for each OUT: end that one, or take another OUT")
        if not _is_same_job(self.earlier.job):
            self.earlier.idle_since = None
        if not line.endswith(b"\n"):  # the end of a watch that was killed while it wrote
            os.write(self._file, b"\n")

    def write(self, event: str, **fields_: Any) -> None:
        row = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event, **fields_}
        line = json.dumps(row, separators=(",", ":"))
        try:
            os.write(self._file, (line + "\n").encode())
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                self._warn(f"{DIARY} cannot be written: {error.strerror}")
            self._is_failing = True
        if self._shown:
            self._shown(line)


class Counts(Dict[str, Any]):
    """What has been counted since the watch began: rows of counts.txt, their name, first value and meaning."""

    def __init__(self) -> None:
        self._rows = [line.split(" | ") for line in Path(__file__).with_name("counts.txt").read_text(encoding="utf-8").splitlines()]
        super().__init__((name, int(first)) for name, first, _ in self._rows)

    def write(self, path: str) -> None:
        """Puts the counts in place of a file, in Prometheus' text format 0.0.4."""
        text = ""
        for own_name, _, meaning in self._rows:
            name, kind = "shardweld_watch_" + own_name, "counter" if own_name.endswith("_total") else "gauge"
            text += f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n{name} {self[own_name]:.17g}\n"
        fresh = path + ".tmp"
        if os.path.lexists(fresh):
            os.unlink(fresh)
        with open(fresh, "x", encoding="utf-8") as file:
            file.write(text)
        os.rename(fresh, path)

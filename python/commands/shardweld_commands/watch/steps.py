"""Which step of a run is to be merged next: what each look at the run shows, remembered from one to the next.

A step is complete when the signs are there that its trainer writes last, and its files have been quiet for two intervals. Whether it can be planned
the merge itself finds out, before it writes.
"""
import contextlib
import fnmatch
import hashlib
import json
import os
import re
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from .. import command

QUIET_INTERVALS = 2
PATIENCE = (20, 600.0)  # intervals, and seconds at least
_DEEPEST = 6            # of a step's directory: the deepest known is checkpoint-N/iter_N/dist_ckpt
_LEAST_SLACK_S = 1.0    # clocks of hosts differ

_TRACKER, _DEEPSPEED_TAG = "latest_checkpointed_iteration.txt", "latest"
_DEEPSPEED = ("*_model_states.pt", "*_optim_states.pt")
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.distcp", "*.ckpt")
_RANDOM_STATES = ("rng_state", "random_states")  # each rank writes its own, whenever it comes to that
# One of them is the last file of a step that transformers, accelerate or ms-swift (with Megatron) calls checkpoint-10 or checkpoint_10.
_TRAINER = ("trainer_state.json", "random_states_0.pkl", _TRACKER)
_TRACKED = re.compile(r"(iter_|global_steps?_?)\d+")  # in a step of another name


@dataclass(frozen=True)
class Step:
    """The directory of a step, as `inspect --steps` tells of it."""
    number: int
    name: str
    directory: str      # that it lies in
    has_tracker: bool   # its trainer writes one beside it

    @property
    def path(self) -> str:
        return os.path.join(self.directory, self.name)


def ask(directory: str) -> Any:
    """The saves below a directory and what trackers say of them. Failed with the program's own message."""
    return command.ask(["inspect", directory, "--steps"])


Files = Dict[str, Tuple[int, int]]  # by path in the step: size, and time of the last write in nanoseconds


def files_of(step: str) -> Files:
    """All files of a step by names, sizes and times; none is opened. Those of linked directories are left out, and what goes meanwhile."""
    def refuse(error: OSError) -> None:
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise error

    found = {}
    for place, directories, names in os.walk(step, onerror=refuse):
        prefix = os.path.join(place, "")[len(step) + 1:]
        if prefix.count("/") == _DEEPEST:
            directories.clear()
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(os.path.join(place, name))
                found[prefix + name] = status.st_size, status.st_mtime_ns
    return dict(sorted(found.items()))


def print_of(files: Files) -> str:
    """A short text that is another one once a file came, went or was written to."""
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()[:32]


@dataclass
class Verdict:
    """What the signs of a step say."""
    waits_for: str = ""          # the sign that is not there yet
    is_unfinished: bool = False  # a tracker says that this step's save has not ended
    has_signs: bool = False      # such steps have any; else nothing but quiet files tells
    is_old: bool = False         # weights were written behind a sign: it is of an earlier save


def verdict_on(step: Step, files: Files, trackers: Dict[str, Tuple[Optional[int], int]], slack_ns: int) -> Verdict:
    """Whether the save of a step has ended, by its files and the trackers beside it (by name: number and time). Signs and weights may be `slack_ns`
    apart. Sources: megatron-core 0.19 dist_checkpointing/serialization.py, Megatron-LM training/checkpointing.py, verl 0.9.1
    utils/checkpoint/*_checkpoint_manager.py, torch 2.9 distributed/checkpoint/filesystem.py, DeepSpeed 0.18 runtime/engine.py, transformers 4.57
    trainer.py, accelerate 1.11 checkpointing.py."""
    if not files:
        return Verdict(waits_for="its files", is_unfinished=True)
    signs: List[Tuple[str, Optional[int], int, bool]] = []  # their names, when they were written, behind what they are, whether they deny the end

    def newest(globs: Sequence[str], directory: Optional[str] = None) -> Optional[int]:
        def fits(path: str) -> bool:
            above, name = os.path.split(path)
            return directory in (None, above) and any(fnmatch.fnmatchcase(name, glob) for glob in globs) and (
                globs is not _WEIGHTS or not name.startswith(_RANDOM_STATES))
        return max((time for path, (_, time) in files.items() if fits(path)), default=None)

    def inside(path: str, behind: int) -> None:
        signs.append((path, files[path][1] if path in files else None, behind, False))

    def beside(name: str, behind: int) -> None:
        number, written = trackers.get(name, (None, 0))
        is_denied = name in trackers and (number is None or number < step.number)
        signs.append((name + (" to name it" if is_denied else ""), written if name in trackers and not is_denied else None, behind, is_denied))

    weights = newest(_WEIGHTS) or 0
    directories = {path[:end.start()] for path in files for end in re.finditer("/", path)}
    for directory in ["", *sorted(directories)]:
        above = os.path.dirname(directory)
        shards, states = newest(["*.distcp"], directory), newest(_DEEPSPEED, directory)
        if shards is not None:
            inside(os.path.join(directory, ".metadata"), shards)
            if os.path.join(directory, "common.pt") in files:
                inside(os.path.join(directory, "metadata.json"), shards)
        if ("/" + directory).endswith("/model/dist_ckpt"):  # verl's directory of a role, with Megatron's shards in it
            inside(os.path.join(os.path.dirname(above), "ckpt_contents.json"), weights)
        if states is not None and directory:
            inside(os.path.join(above, _DEEPSPEED_TAG), states)
        elif states is not None:
            beside(_DEEPSPEED_TAG, states)
        elif not directory and step.has_tracker:
            beside(_TRACKER, weights)
        elif _TRACKED.fullmatch(os.path.basename(directory)):
            inside(os.path.join(above, _TRACKER), weights)
    if step.name.startswith(("checkpoint-", "checkpoint_")):
        inside(next((name for name in _TRAINER if name in files), _TRAINER[0]), weights)
    return Verdict(next((name for name, written, _, _ in signs if written is None), ""), any(is_denied for _, _, _, is_denied in signs), bool(signs),
                   any(written is not None and written + slack_ns < behind for _, written, behind, _ in signs))


@dataclass
class Ready:
    """A step that is complete as far as its files tell."""
    step: Step
    print: str
    n_files: int
    has_signs: bool  # else its files were quiet, and nothing more is known of its save
    was_made: bool   # this watch has merged it, and its files are others since


@dataclass
class Look:
    """What a look has shown."""
    next: Optional[Ready] = None  # the one with the lowest number, or the highest
    n_steps: int = 0              # that are asked for
    n_waiting: int = 0            # of them, that are not settled
    is_awaited: bool = False      # one of them has its signs, and waits to be quiet
    idle_s: float = 0             # since something was new
    doubles: List[str] = field(default_factory=list)  # steps that have the name of another, each told once
    news: List[Tuple[str, str]] = field(default_factory=list)  # of steps: why they wait, where that is another reason


@dataclass
class _Known:
    print: str = ""
    quiet_since: float = 0
    end: str = ""         # "made", "refused"; "failed": it is tried once more after a while; "": it waits
    ended: float = 0
    was_made: bool = False
    why: str = ""         # it waits
    marks: Dict[str, Optional[Tuple[int, int]]] = field(default_factory=dict)  # by which a settled step is known to be written again


class Lookout:
    """`left`: steps that an earlier watch has made and removed, settled while their files have this print. `others`: directories of outputs, which hold
    no steps of the run. `last_news`: when something was new, by the clock of `look`. `is_newest_next`: the one with the highest number is next."""

    def __init__(self, run: str, others: Sequence[str], interval: float, every: int, first: int, left: Dict[str, str], last_news: Optional[float],
                 is_newest_next: bool = False) -> None:
        self.run, self.others, self.interval, self.every, self.first, self.left = run, others, interval, every, first, left
        self.patience_s = max(PATIENCE[0] * interval, PATIENCE[1])
        self.last_news, self._is_newest_next = last_news, is_newest_next
        self._goes_on = last_news is not None
        self._known: Dict[str, _Known] = {}
        self._doubles: Set[str] = set()

    def look(self, now: float) -> Look:
        """Failed where the run cannot be looked at."""
        if self.last_news is None:
            self.last_news = now
        look = Look()
        told = ask(self.run) if os.path.isdir(self.run) else {"steps": [], "trackers": []}
        steps: Dict[str, Step] = {}
        for step in (Step(**row) for row in told["steps"]):
            if any(step.path == other or step.path.startswith(other + "/") for other in self.others) or step.number < self.first or step.number % self.every:
                continue
            if steps.setdefault(step.name, step) != step and step.path not in self._doubles:
                self._doubles.add(step.path)
                look.doubles.append(step.path)
        for name in [name for name in self._known if name not in steps]:
            if not self._known.pop(name).end and all(row["name"] != name for row in told["steps"]):
                look.news.append((name, "it was deleted before it was complete"))
        look.n_steps = len(steps)
        for step in steps.values():
            trackers = {row["file"]: (row["number"], row["modified_ns"]) for row in told["trackers"] if row["directory"] == step.directory}
            self._examine(step, trackers, now, look)
        look.idle_s = now - self.last_news
        self._goes_on = False  # what is found from now on is new
        return look

    def _examine(self, step: Step, trackers: Dict[str, Tuple[Optional[int], int]], now: float, look: Look) -> None:
        known = self._known.setdefault(step.name, _Known())
        if self._is_over(known, now) and all(_stamp(path) == stamp for path, stamp in known.marks.items()):
            return
        try:
            files = files_of(step.path)
        except OSError as error:
            look.n_waiting += 1
            why = f"{error.filename}: {error.strerror}"
            look.news += [(step.name, why)] if why != known.why else []
            known.why = why
            return
        found = print_of(files)
        if found != known.print:
            known.print, known.quiet_since, known.end = found, now, ""
            age_s = time.time() - max((written for _, written in files.values()), default=0) / 1e9 if self._goes_on else 0
            self.last_news = max(self.last_news or 0, now - max(age_s, 0))
        if self.left.get(step.name) == found:
            known.end = "made"
        if self._is_over(known, now):
            known.marks = _marks_of(step.path, files)
            return
        look.n_waiting += 1
        quiet_s, wait = now - known.quiet_since, QUIET_INTERVALS * self.interval
        verdict = verdict_on(step, files, trackers, int(max(wait, _LEAST_SLACK_S) * 1e9))
        why, is_awaited = "", False
        if not verdict.waits_for and not verdict.is_old:
            why, is_awaited = ("" if quiet_s >= wait else "its files are not quiet yet"), True
        elif verdict.is_unfinished or quiet_s < self.patience_s:
            why = f"waiting for {verdict.waits_for}" if verdict.waits_for else "its files were written behind the signs of its end"
        else:
            verdict.has_signs = False  # a run that was copied has lost its signs, or their times
        look.is_awaited |= is_awaited
        look.news += [(step.name, why)] if why not in ("", known.why) and not is_awaited else []
        known.why = why
        if not why and (look.next is None or self._is_newest_next):
            look.next = Ready(step, found, len(files), verdict.has_signs, known.was_made)

    def _is_over(self, known: _Known, now: float) -> bool:
        return known.end != "" and (known.end != "failed" or now - known.ended < self.patience_s)

    def settle(self, ready: Ready, end: str, now: float, is_news: bool = True) -> None:
        """How a step ended that was next; "": it was not complete after all."""
        known = self._known.setdefault(ready.step.name, _Known())
        self.last_news = now if is_news else self.last_news
        known.was_made = known.was_made or end == "made"
        try:
            files = files_of(ready.step.path)
        except OSError:
            files = {}
        if not end or print_of(files) != ready.print:
            known.print, known.end = "", ""
            return
        known.end, known.ended, known.marks = end, now, _marks_of(ready.step.path, files)

    def forget(self, name: str) -> None:
        """A step that is gone: one that comes under its name is new."""
        self._known.pop(name, None)

    def print_of(self, name: str) -> str:
        return self._known[name].print if name in self._known else ""

    def waiting(self) -> Dict[str, str]:
        """The steps that are there and not settled, and what each waits for."""
        return {name: known.why or "it was not its turn" for name, known in self._known.items() if not known.end}


def _stamp(path: str) -> Optional[Tuple[int, int]]:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _marks_of(step: str, files: Files) -> Dict[str, Optional[Tuple[int, int]]]:
    """Marks of the directory, of its first and last file by name and of what was written last: one of them changes early where a step is written again."""
    paths = [step]
    if files:
        names = list(files)
        paths += [os.path.join(step, name) for name in (names[0], names[-1], max(names, key=lambda name: files[name][1]))]
    return {path: _stamp(path) for path in paths}

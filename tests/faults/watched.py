"""A reader that looks at the target again and again while ranks are killed: it sees nothing, the old model whole, or the new one whole. Knows directories;
nothing of merges."""
import multiprocessing
import os
import signal
from collections import Counter

from program import Failed, digest_of
from scenario import Scenario, Stage

SECONDS = 30  # until the job of a dead rank has ended, on a busy machine
_FIXTURE = "megatron/llama-tp4-legacy-bf16"
_FILES = ("--max_shard_size", "100KB")
_SLOW_MS = 150
_SIDES = {"create": "output", "execute": "output", "publish": "output"}
# Which rank is killed, at which of its calls in the phase (0 the first, 1 the last).
_KILLS = (("create", "any", 0, 0.5), ("execute", "write", -1, 0.5), ("publish", "any", 0, 0.3), ("publish", "rename", 0, 0.0), ("publish", "rename", 0, 1.0))


def try_watched(runner, data, is_quick):
    """What a reader saw: records for the page. Failed with the first wrong outcome."""
    records = []
    for ranks in (2,) if is_quick else (2, 4):
        for target in ("old",) if is_quick else ("new", "old"):
            stage = Stage(runner, data, Scenario(f"watched, {ranks} ranks, {target}", _FIXTURE, ranks, _FILES, target))
            seen = stage.dry_run().seen
            for kill in (None, *(_KILLS[1:3] if is_quick else _KILLS)):
                records.append(_watched(stage, seen, kill))
    return records


def _watched(stage, seen, kill):
    slow = f"call=rename,side=output,phase=publish,rank=0,nth=1,times=0,do=slow:{_SLOW_MS}"
    with Reader(stage) as reader:
        outcome = stage.merge(slow + (";" + _fault(stage, seen, *kill) if kill else ""), meanwhile=reader.begin)
        looks = reader.end()
    name = f"{stage.scenario.name}: {kill or 'not killed'}"
    if looks["part"]:
        raise Failed(f"{name}: a reader saw a part of a model: {looks}")
    if outcome.code is None or outcome.wall_s > SECONDS or (outcome.code == 0) != (kill is None):
        raise Failed(f"{name}: ended with code {outcome.code} after {outcome.wall_s:.0f} s: {outcome.stderr[-600:]}")
    if sum(looks.values()) < 3 or kill and not any(one.side == "output" for one in outcome.struck):
        raise Failed(f"{name}: no reader looked, or no rank was killed: {looks}")
    if not kill and (stage.now() != stage.good or not looks["new"] + looks["old"] + looks["absent"]):
        raise Failed(f"{name}: the model is not there, or was not seen: {looks}")
    if kill:
        stage.resume()
    return {"ranks": stage.scenario.ranks, "target": stage.scenario.target, "phase": kill[0] if kill else "", "code": outcome.code,
            "seconds": round(outcome.wall_s, 1), "looks": {what: looks[what] for what in ("absent", "old", "new")}}


def _fault(stage, seen, phase, call, victim, share):
    victim %= stage.scenario.ranks
    n = sum(count for (of, side, one), count in seen[victim].items() if of == phase and side == _SIDES[phase] and call in (one, "any"))
    if n == 0:
        raise Failed(f"{stage.scenario.name}: rank {victim} makes no such call: {phase}, {call}")
    return f"call={call},side={_SIDES[phase]},phase={phase},rank={victim},nth={1 + round(share * (n - 1))},do=signal:{signal.SIGKILL:d}"


class Reader:
    """A process of its own that reads the whole target until it is told to end."""

    def __init__(self, stage):
        self._stage = stage
        self._stop = multiprocessing.Event()
        self._counts = multiprocessing.Queue()
        self._process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.set()
        if self._process:
            self._process.join()

    def begin(self, _):
        stage = self._stage
        self._process = multiprocessing.Process(target=_read_on, args=(stage.target, stage.target_before(), stage.good_target, self._stop, self._counts))
        self._process.start()

    def end(self):
        self._stop.set()
        counts = self._counts.get(timeout=SECONDS)
        self._process.join()
        return counts


def _read_on(target, old, new, stop, counts):
    seen = Counter()
    while True:
        is_last = stop.is_set()
        what = look(target, old, new)
        if what is not None:
            seen[what] += 1
        if is_last:
            break
    counts.put(seen)


def look(target, old, new):
    """"absent", "old", "new" or "part"; None when the directory was replaced meanwhile."""
    try:
        directory = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return "absent"
    try:
        content = _content(directory)
        try:
            is_still = os.path.samestat(os.stat(target), os.fstat(directory))
        except FileNotFoundError:
            is_still = False
        if not is_still:
            return None
        return "old" if old is not None and content == old else "new" if content == new else "part"
    finally:
        os.close(directory)


def _content(directory):
    """As program.content_of, of an open directory without others in it."""
    content = {}
    for name in os.listdir(directory):
        try:
            file = os.open(name, os.O_RDONLY, dir_fd=directory)
        except FileNotFoundError:
            return None
        with open(file, "rb") as stream:
            content[name] = digest_of(name, stream.read())
    return content

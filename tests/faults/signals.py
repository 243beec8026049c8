"""Signals while the model is published: it is published, or everything is as before and --resume goes on. Knows renames; nothing of how they are made."""
import os
import signal
import time

import program
from program import Failed
from scenario import Scenario, Stage

_FIXTURE = "megatron/llama-tp4-legacy-bf16"
_FILES = ("--max_shard_size", "100KB")
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
_SLOW_MS = 1500
_SECONDS = 30  # until a rename is reached, on a busy machine


def try_signals(runner, data, is_quick):
    """What came of each: records for the page. Failed with the first wrong outcome."""
    records = []
    for target in ("new", "old", "inside", "empty"):
        stage = Stage(runner, data, Scenario(f"signals, {target}", _FIXTURE, 1, _FILES, target))
        n = sum(counts["publish", "output", "rename"] for counts in stage.dry_run().seen)
        for number in _SIGNALS[:1] if is_quick else _SIGNALS:
            for nth in sorted({1, n}):
                records.append(_noted(stage, target, number, nth))
        for number in _SIGNALS[:1] if is_quick else _SIGNALS[:2]:
            records.append(_insisted(stage, target, number, n))
    stage = Stage(runner, data, Scenario("signals, 2 ranks", _FIXTURE, 2, _FILES, "old"))
    stage.dry_run()
    for number in (signal.SIGUSR1,) if is_quick else (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
        records.append(_to_launcher(runner, stage, number))
    return records


def _fault(nth, do, times=1):
    return f"call=rename,side=output,phase=publish,rank=0,nth={nth},times={times},do={do}"


def _record(to, target, numbers, outcome, came):
    return {"to": to, "target": target, "signals": [signal.Signals(number).name for number in numbers], "code": outcome.code, "came": came}


def _noted(stage, target, number, nth):
    """One signal in front of a rename: what is being published is published."""
    outcome = stage.merge(_fault(nth, f"signal:{number:d}"))
    if len(outcome.struck) != 1 or outcome.code != 0 or stage.now() != stage.good:
        raise Failed(f"{stage.scenario.name}: {number.name} before rename {nth}: code {outcome.code}, struck {outcome.struck}: {outcome.stderr[-600:]}")
    return _record("the process", target, [number], outcome, "published")


def _insisted(stage, target, number, n):
    """A second one ends the process at once, in front of the last rename."""
    outcome = stage.merge(f"{_fault(n, f'signal:{number:d}')};{_fault(n, f'signal:{number:d}')}")
    if len(outcome.struck) != 2 or outcome.code != -number:
        raise Failed(f"{stage.scenario.name}: two {number.name}: code {outcome.code}, struck {outcome.struck}: {outcome.stderr[-600:]}")
    if not stage.scenario.is_here():
        _require_whole(stage, outcome, f"two {number.name}")
    stage.resume()
    return _record("the process", target, [number] * 2, outcome, "resumed")


def _to_launcher(runner, stage, number):
    """mpirun hands SIGUSR1 on; after SIGTERM or SIGINT it leaves its ranks a second."""
    def send(child):
        until = time.monotonic() + _SECONDS
        while not runner.has_struck() and time.monotonic() < until:
            time.sleep(0.02)
        child.send_signal(number)

    outcome = stage.merge(_fault(1, f"slow:{_SLOW_MS}", 0), meanwhile=send)
    if not outcome.struck or outcome.code is None or outcome.wall_s > _SECONDS:
        raise Failed(f"{stage.scenario.name}: {number.name} to mpirun: ended with {outcome.code} after {outcome.wall_s:.0f} s")
    is_published = _require_whole(stage, outcome, f"{number.name} to mpirun")
    if number == signal.SIGUSR1 and (outcome.code != 0 or stage.now() != stage.good):
        raise Failed(f"{stage.scenario.name}: {number.name} to mpirun: code {outcome.code}: {outcome.stderr[-600:]}")
    if outcome.code == 0 and not is_published:
        raise Failed(f"{stage.scenario.name}: {number.name} to mpirun: success without a model")
    if outcome.code != 0:
        stage.resume()
    return _record("mpirun", stage.scenario.target, [number], outcome, "published" if outcome.code == 0 else "resumed")


def _require_whole(stage, outcome, what):
    """Under the target's name lies the model, or what was there before; whether it is the model."""
    now = program.content_of(stage.target)
    if now not in (stage.target_before(), stage.good_target):
        raise Failed(f"{stage.scenario.name}: {what}: a part of a model is under the target's name; code {outcome.code}: {outcome.stderr[-600:]}")
    return now == stage.good_target

"""Ranks that are killed (SIGKILL) at chosen calls, and the merge that goes on behind them with other ranks and the other strategy. Knows stages; nothing
of journals but what the report says."""
import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass

import program
from program import Failed
from scenario import Scenario, Stage

SECONDS = 30  # until the job of a dead rank has ended, on a busy machine
_LAYOUTS = ("legacy", "torch_dist", "fsdp")
# What is done before the kill may be done again: the extents that were on their way to the disk.
_LEAST_REUSED = 0.5


@dataclass(frozen=True)
class Kill:
    layout: str
    ranks: int
    strategy: str
    victim: int
    phase: str
    call: str
    nth: float              # of the calls that the victim makes in this phase: 0 the first, 1 the last
    resumed_ranks: int
    resumed_strategy: str
    sync: bool              # else every write is written down at once, not only what was synced every few seconds


def points(n):
    """`n` kills: most while tensors are written, some in every other phase."""
    other_phases = (("bind", "read", 0.5), ("create", "any", 0.3), ("create", "any", 1.0), ("publish", "any", 0.1), ("publish", "any", 0.6), ("publish", "rename", 0.0))
    listed = []
    for i in range(n):
        ranks = 1 + i % 3
        strategy = "collective" if ranks > 1 and i // 3 % 2 else "direct"
        resumed_ranks = 1 + (i + 1 + i // 3 % 2) % 3
        resumed_strategy = "direct" if strategy == "collective" or resumed_ranks == 1 else "collective"
        victim = i // 2 % ranks
        if i % 4 == 3:
            phase, call, nth = other_phases[i // 4 % len(other_phases)]
            victim = 0 if phase in ("create", "publish") else victim
        else:
            phase, call, nth = "execute", "write", (i * 7 % n + 1) / (n + 1)
        listed.append(Kill(_LAYOUTS[i // 5 % len(_LAYOUTS)], ranks, strategy, victim, phase, call, nth, resumed_ranks, resumed_strategy, i % 7 == 5))
    return listed


class Killer:
    """Checkpoints large enough for many writes, and what a merge of them gives."""

    def __init__(self, runner, make_checkpoint, gb):
        self._runner, self._make, self._gb = runner, make_checkpoint, gb
        self._layout, self._stage, self._counts = None, None, {}

    def try_one(self, kill):
        """What came of a kill: a record for the page. Failed when anything is lost, or nothing was reused."""
        stage = self._stage_of(kill.layout)
        seen = self._counts_of(kill)
        outcome = stage.merge(self._fault(kill, seen), ranks=kill.ranks, options=_options(kill.strategy, kill.sync))
        if not outcome.struck:
            raise Failed(f"{kill}: the rank was not killed")
        if outcome.code == 0 or outcome.code is None or outcome.wall_s > SECONDS:
            raise Failed(f"{kill}: the job ended with code {outcome.code} after {outcome.wall_s:.0f} s")
        is_there = os.path.lexists(stage.target)
        if is_there and (kill.phase != "publish" or program.content_of(stage.target) != stage.good_target):
            raise Failed(f"{kill}: a part of a model is under the target's name")
        written = self._written_share(outcome, seen) if kill.phase == "execute" else 1.0 if kill.phase == "publish" else 0.0
        # After the last rename there is nothing to resume: the model is whole, and the next merge removes what is left beside it.
        again = stage.merge_again("", ("--resume", *(["--overwrite"] if is_there else [])), kill.resumed_ranks, _options(kill.resumed_strategy, kill.sync))
        if again.code != 0:
            raise Failed(f"{kill}: --resume exits with code {again.code}: {again.stderr[-600:]}")
        if stage.now() != stage.good:
            raise Failed(f"{kill}: --resume gives other files")
        reused = 1.0 if is_there else self._reused_share()
        least = 0 if kill.sync and kill.phase == "execute" else written * _LEAST_REUSED - 0.02
        if reused < least:
            raise Failed(f"{kill}: {written:.0%} was written, {reused:.0%} reused")
        return {"sync": kill.sync, "ranks": kill.ranks, "strategy": kill.strategy, "phase": kill.phase, "layout": kill.layout, "resumed_ranks": kill.resumed_ranks,
                "resumed_strategy": kill.resumed_strategy, "code": outcome.code, "seconds": round(outcome.wall_s, 1), "written": round(written, 3),
                "reused": round(reused, 3)}

    def _stage_of(self, layout):
        if self._layout != layout:
            fixture = os.path.join(self._runner.work, "checkpoint")
            shutil.rmtree(fixture, ignore_errors=True)
            subprocess.run([self._make, fixture, "--format", layout, "--gb", str(self._gb), "--tp", "4", "--pp", "1" if layout == "fsdp" else "2"],
                           check=True, stdout=subprocess.DEVNULL)
            self._layout, self._counts = layout, {}
            self._stage = Stage(self._runner, "", Scenario(layout, fixture, 1, _options("direct", True)), is_moved=True)
            self._stage.dry_run()
        return self._stage

    def _counts_of(self, kill):
        """The calls of a run without the kill; counted once for each number of ranks, strategy and way of syncing."""
        key = kill.ranks, kill.strategy, kill.sync
        if key not in self._counts:
            outcome = self._stage.merge("", ranks=kill.ranks, options=_options(kill.strategy, kill.sync))
            if outcome.code != 0 or self._stage.now() != self._stage.good:
                raise Failed(f"{kill}: without the kill it exits with code {outcome.code}: {outcome.stderr[-600:]}")
            self._counts[key] = outcome.seen
        return self._counts[key]

    @staticmethod
    def _fault(kill, seen):
        side = "input" if kill.phase == "bind" else "output"
        counts = seen[kill.victim]
        n = sum(count for (phase, of, call), count in counts.items() if phase == kill.phase and of == side and kill.call in (call, "any"))
        if n == 0:
            raise Failed(f"{kill}: there is no such call")
        nth = 1 + round(kill.nth * (n - 1))
        return f"call={kill.call},side={side},phase={kill.phase},rank={kill.victim},nth={nth},do=signal:{signal.SIGKILL:d}"

    @staticmethod
    def _written_share(outcome, seen):
        """By calls, which are of one size but for the last ones of files."""
        key = "execute", "output", "write"
        return sum(counts[key] for counts in outcome.seen) / max(1, sum(counts[key] for counts in seen))

    def _reused_share(self):
        with open(self._runner.report, encoding="utf-8") as file:
            report = json.load(file)
        total = sum(tensor["bytes"] for tensor in report["tensors"])
        return (report.get("resume") or {"bytes_reused": 0})["bytes_reused"] / total


def _options(strategy, sync):
    return ("--max_shard_size", "30MB", "--memory_limit", "1MiB", "--strategy", strategy, *(() if sync else ("--no_fsync",)))

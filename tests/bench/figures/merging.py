"""The sides of a merge's pairs: the merge, `cp -r` and plain parallel copying. Knows their command lines and reports."""
import os
from dataclasses import dataclass

import pairs
import plain_io
import process
from place import Model, Place, mpirun
from process import Failed


@dataclass(frozen=True)
class Case:
    """What the sides of one interleaved run have in common."""
    model: Model
    ranks: int
    cache: str   # warm or cold
    fsync: str   # yes or no

    def record(self, strategy):
        return {"kind": "merge", "input": self.model.layout, "dtype": self.model.dtype, "ranks": self.ranks, "strategy": strategy, "cache": self.cache,
                "fsync": self.fsync, "gb": self.model.gb}

    def no_fsync(self):
        return ["--no_fsync"] if self.fsync == "no" else []


def merge_command(place, model, checkpoint, target, strategy):
    return [place.program("shardweld"), "merge", *model.merged_with(), "--local_dir", f"{checkpoint}/source", "--hf_config", f"{checkpoint}/hf",
            "--target_dir", target, "--strategy", strategy, "--report", place.report, "-q"]


def totals_of(report):
    """Sums over the ranks of a merge's report."""
    return {name: sum(rank[name] for rank in report["ranks"]) for name in ("bytes_read", "bytes_written", "bytes_sent")}


def speed_of(report):
    """GB/s of a merge: half of the bytes that it must read and write, by the seconds from the first file made to the model published."""
    names = [phase["name"] for phase in report["phases"]]
    moving = report["phases"][names.index("create"):names.index("publish") + 1]
    must = report["ledger"]["consumed"] + sum(tensor["bytes"] for tensor in report["tensors"])
    return must / 2e9 / sum(phase["wall_s"] for phase in moving)


class Merging:
    """The sides of one case. The last reports of the strategies stay in `reports`. `launch` makes of a program's command the one that starts its ranks."""

    def __init__(self, place: Place, case: Case, launch=None):
        self.place, self.case = place, case
        self.launch = launch or (lambda command: [*mpirun(case.ranks), *command])
        self.checkpoint = place.checkpoint(case.model)
        self.inputs = place.inputs(self.checkpoint)
        self.reports = {}

    def sides(self, strategies):
        copied = os.path.join(self.place.work, "copied")
        return [pairs.Side("roof", self._run_roof), pairs.Side("copy", lambda sampled: self._run_copy(copied, sampled), (copied,)),
                *(self._merge_side(strategy) for strategy in strategies)]

    def _merge_side(self, strategy):
        merged = os.path.join(self.place.work, "merged")
        return pairs.Side(strategy, lambda sampled: self._run_merge(strategy, merged, sampled), (merged,),
                          lambda: self.place.check_values(merged, self.case.model))

    def _run_merge(self, strategy, merged, sampled):
        command = merge_command(self.place, self.case.model, self.checkpoint, merged, strategy)
        taken = process.run(self.launch([*command, *self.case.no_fsync()]), self.place.log, sampled)
        report = self.place.take_report()
        self._check(report, strategy)
        self.reports[strategy] = report
        totals = totals_of(report)
        moved = (totals["bytes_read"] + totals["bytes_written"]) / 2e9
        return figures(taken, {"gbs": speed_of(report), "whole_gbs": moved / taken.wall_s})

    def _check(self, report, strategy):
        """What the report must say, whatever the speed."""
        did, totals, n_ranks = report["plan"]["strategy"], totals_of(report), len(report["ranks"])
        if strategy not in (did, "auto") or n_ranks != self.case.ranks:
            raise Failed(f"asked for {strategy} with {self.case.ranks} ranks, the merge was {did} with {n_ranks}")
        if (totals["bytes_sent"] > 0) != (did == "collective" and n_ranks > 1) or min(totals["bytes_read"], totals["bytes_written"]) == 0:
            raise Failed(f"a merge cannot be {did} and move these bytes: {totals}")

    def _run_copy(self, copied, sampled):
        script = 'cp -r "$1" "$2"' + (' && find "$2" -depth -exec sync {} +' if self.case.fsync == "yes" else "")
        return figures(process.run(["sh", "-c", script, "copy", f"{self.checkpoint}/source", copied], self.place.log, sampled))

    def _run_roof(self, _):
        return plain_io.copying(self.place.work, self.case.ranks, self.inputs, self.case.fsync == "yes", self.case.cache == "cold")

    def records(self, sides):
        """One record for each strategy; the other sides' samples are in each of them."""
        others = {side.name: side for side in sides if side.name in ("roof", "copy")}
        for side in sides:
            if side.name in others:
                continue
            report = self.reports[side.name]
            yield dict(self.case.record(side.name), **totals_of(report), input_bytes=sum(map(os.path.getsize, self.inputs)),
                       did=report["plan"]["strategy"], rounds=max(rank["rounds"] for rank in report["ranks"]), pairs=len(side.samples["wall_s"]), peak_bytes=side.peak_bytes,
                       copy_peak_bytes=others["copy"].peak_bytes,
                       samples={"merge": side.samples, **{name: other.samples for name, other in others.items()}})


def figures(taken, more=None):
    known = {"wall_s": taken.wall_s, "cpu_s": taken.cpu_s, "disk_read_bytes": taken.disk_read_bytes, **(more or {})}
    return dict(known, peak_bytes=taken.peak_bytes) if taken.peak_bytes else known


def measure(place, case, strategies, n_pairs):
    """All records of one case."""
    merging = Merging(place, case)
    sides = merging.sides(strategies)
    pairs.measure(sides, n_pairs, merging.inputs, case.cache)
    if case.cache == "cold":
        check_cold(sides, merging.inputs)
    return list(merging.records(sides))


def check_cold(sides, inputs):
    """The kernel's word: what is read cold comes from a device. File systems without one (tmpfs, network) count nothing."""
    size = sum(map(os.path.getsize, inputs))
    for side in sides:
        fetched = side.samples.get("disk_read_bytes", [])
        if any(0 < value < 0.95 * size for value in fetched):
            raise Failed(f"{side.name} fetched {min(fetched):.0f} of {size} bytes from the disk: it did not read all input, or not cold")

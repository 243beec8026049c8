"""Interleaved runs: each pair runs every side once, one after the other, in an order that changes. Knows the page cache and the clock; what a side
runs is its own matter."""
import os
import shutil
import time
from dataclasses import dataclass, field
from typing import Callable

import page_cache

# Freed memory of a virtual machine goes back to its host within some seconds, removed files leave work to the file system: without a rest a run is
# quick or slow by what ran before it.
REST_S = 4


@dataclass
class Side:
    """One of the things compared. `run(sampled)` returns its figures by name, numbers all."""
    name: str
    run: Callable
    outputs: tuple = ()                # removed after each run
    check: Callable = lambda: None     # of the outputs of the first run
    peak_bytes: int = 0                # of the first run
    samples: dict = field(default_factory=dict)

    def add(self, figures):
        for name, value in figures.items():
            self.samples.setdefault(name, []).append(round(value, 4))


def order_of(sides, pair):
    """Turned by one each pair and every other time backwards, so that none always follows the same other one."""
    first = pair % len(sides)
    turned = sides[first:] + sides[:first]
    return turned[::-1] if pair // len(sides) % 2 else turned


def measure(sides, n_pairs, inputs, cache):
    """A first run of each side, not timed: its memory is sampled and its output checked. Then the pairs. Before each run the
    file systems are synced, the machine rests and the input is brought to the wanted state, behind it outputs are removed, all outside the timing. A single
    pair is a trial: without syncs and without rests."""
    for side in sides:
        side.peak_bytes = int(_one(side, inputs, cache, True).get("peak_bytes", 0))
    for pair in range(n_pairs):
        for side in order_of(sides, pair):
            if n_pairs > 1:
                os.sync()
                time.sleep(REST_S)
            side.add(_one(side, inputs, cache, False))


def measure_once(side, inputs, cache):
    """A single run, timed, with its memory sampled and its output checked: for what takes minutes, of which 5 ms between two samples are little."""
    os.sync()
    time.sleep(REST_S)
    side.add(_one(side, inputs, cache, True))
    side.peak_bytes = int(side.samples.get("peak_bytes", [0])[0])


def _one(side, inputs, cache, is_first):
    prepare = page_cache.make_cold if cache == "cold" else page_cache.make_warm
    prepare(inputs)
    try:
        figures = side.run(is_first)
        if is_first:
            side.check()
    finally:
        for path in side.outputs:
            shutil.rmtree(path, ignore_errors=True)
    return figures

"""Changes of whole files: exchanged, copied over another, left out, doubled, taken from a sibling. Knows names; nothing of what is in files but for the
second run (second_run.py)."""
import os
from collections import defaultdict
from itertools import combinations

import ranks
import second_run
from change import Change, copy, exchange, put


def exchanges(fixture, _):
    """Every two files of ranks, every two groups of them that share one coordinate (stages, experts, tensor ranks), copies over one another, rotations."""
    for key, names in ranks.families(fixture.files).items():
        for one, other in combinations(names, 2):
            yield Change("exchanged files", f"{one} and {other}", lambda root, a=one, b=other: exchange(root, a, b), (one, other))
        for one, other in zip(names, names[1:] + names[:1]):
            if one != other:
                yield Change("copied over", f"{other} over {one}", lambda root, a=one, b=other: copy(root, b, a), (one, other))
        if len(names) > 2:
            yield Change("rotated", key, lambda root, listed=names: _rotate(root, listed), tuple(names))
    for listed in ranks.zarr_chunks(fixture.files):
        for one, other in combinations(listed, 2):
            yield Change("exchanged files", f"{one} and {other}", lambda root, a=one, b=other: exchange(root, a, b), (one, other))
    yield from _group_exchanges(fixture)


def _rotate(root, names):
    for one, other in zip(names, names[1:]):
        exchange(root, one, other)


def _group_exchanges(fixture):
    """All files with one value of a coordinate for those with another: a pipeline stage, an expert rank, a whole rank renamed consistently."""
    groups = defaultdict(lambda: defaultdict(list))
    for name in fixture.files:
        known = ranks.parsed(name)
        if known:
            for at, value in enumerate(ranks.coordinates(name)):
                groups[known[0], at][value].append(name)
    for (family, at), values in sorted(groups.items()):
        for one, other in combinations(sorted(values), 2):
            pairs = [(name, ranks.renamed(name, at, other)) for name in values[one]]
            pairs = [(a, b) for a, b in pairs if b in fixture.files]
            if len(pairs) > 1:
                yield Change("exchanged groups", f"{family} coordinate {at + 1}: {one} and {other}",
                             lambda root, listed=tuple(pairs): [exchange(root, a, b) for a, b in listed], tuple(sum(pairs, ())))


def left_out(fixture, _):
    for name in fixture.files:
        yield Change("left out", name, lambda root, name=name: os.remove(os.path.join(root, name)), (name,))


def doubled(fixture, _):
    """Each file of a rank under the next number of each coordinate, each file as an editor or a sync tool leaves copies."""
    for key, names in ranks.families(fixture.files).items():
        for at in range(len(ranks.coordinates(names[0]))):
            most = max(ranks.coordinates(name)[at] for name in names)
            for name in names:
                new = ranks.renamed(name, at, most + 1)
                yield Change("doubled", f"{name} as {new}", lambda root, a=name, b=new: copy(root, a, b), (name, new))
    for name in fixture.files:
        stem, end = os.path.splitext(name)
        new = f"{stem} (copy){end}"
        yield Change("doubled", f"{name} as {new}", lambda root, a=name, b=new: copy(root, a, b), (name, new))
    yield from _steps(fixture)


def _steps(fixture):
    """A whole step under another number: beside the one that the tracker names, or written in another way."""
    steps = sorted({part for name in fixture.files for part in name.split("/")[:-1] if part.startswith(("iter_", "global_step_"))})
    for step in steps:
        stem, number = step.rsplit("_", 1)
        for new in (f"{stem}_{str(int(number) + 10).zfill(len(number))}", f"{stem}_{int(number)}", f"{stem}_{number.zfill(len(number) + 1)}"):
            if new != step:
                yield Change("doubled", f"{step} as {new}", lambda root, a=step, b=new: _copy_step(fixture, root, a, b), tuple(fixture.files))
        for new in (f"{stem}_{str(int(number) + 10).zfill(len(number))}",):
            yield Change("renamed", f"{step} to {new}", lambda root, a=step, b=new: _rename_step(fixture, root, a, b), tuple(fixture.files))


def _copy_step(fixture, root, step, new):
    for name in fixture.files:
        if f"/{step}/" in f"/{name}":
            copy(root, name, name.replace(step, new))


def _rename_step(fixture, root, step, new):
    place = next(os.path.join(at, step) for at, names, _ in os.walk(root) if step in names)
    os.rename(place, place.replace(step, new))


def siblings(fixture, fixtures):
    """Each file from the fixture that is most like this one, and from a second run: the same files with other tensors and ten steps more."""
    like = [other for other in fixtures if other.name != fixture.name and other.layout == fixture.layout]
    for name in fixture.files:
        theirs = [other for other in like if name in other.files and other.read(name) != fixture.read(name)]
        theirs.sort(key=lambda other: (abs(len(other.read(name)) - len(fixture.read(name))), other.name))
        for other in theirs[:2]:
            yield Change("from a sibling", f"{name} of {other.name}", lambda root, name=name, other=other: put(root, name, other.read(name)), (name,))
    yield from second_run.changes(fixture)

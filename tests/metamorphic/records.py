"""Records inside torch's zips, and blobs inside .distcp files, exchanged. Knows torch_zip."""
import re
from collections import defaultdict

import ranks
import torch_zip
from change import Change, put


def _pairs(listed, size_of, content_of):
    """Each with the next one of equal size and other content."""
    groups = defaultdict(list)
    for one in listed:
        groups[size_of(one)].append(one)
    for group in groups.values():
        for one, other in zip(group, group[1:]):
            if content_of(one) != content_of(other):
                yield one, other


def changes(fixture, _):
    blobs = []
    for name in ranks.ends(fixture.files):
        if not re.search(r"\.(pt|bin|distcp)$", name):
            continue
        data = fixture.read(name)
        archives = torch_zip.find(data)
        if name.endswith(".distcp"):
            blobs += [(name, archive.lo, archive.hi) for archive in archives]
        for archive in archives:
            yield from _of_archive(name, data, archive)
    content = {name: fixture.read(name) for name, _, _ in blobs}
    for one, other in _pairs(blobs, lambda blob: blob[2] - blob[1], lambda blob: content[blob[0]][blob[1]:blob[2]]):
        yield Change("exchanged blobs", f"{one[0]} at {one[1]} and {other[0]} at {other[1]}",
                     lambda root, a=one, b=other: _exchange_blobs(root, content, a, b), (one[0], other[0]))


def _of_archive(name, data, archive):
    for one, other in _pairs(torch_zip.tensors(archive), lambda record: record.hi - record.lo, lambda record: data[record.lo:record.hi]):
        what = f"{name}: {one.name} and {other.name}"
        yield Change("records with checksums", what, lambda root, a=one, b=other: put(root, name, torch_zip.exchange(data, a, b, True)), (name,))
        yield Change("records without checksums", what, lambda root, a=one, b=other: put(root, name, torch_zip.exchange(data, a, b, False)), (name,))
        if len(one.name) == len(other.name):
            yield Change("records' names", what, lambda root, a=one, b=other: put(root, name, torch_zip.exchange_names(data, a, b)), (name,))


def _exchange_blobs(root, content, one, other):
    made = {name: bytearray(content[name]) for name in {one[0], other[0]}}
    for to, source in ((one, other), (other, one)):
        made[to[0]][to[1]:to[2]] = content[source[0]][source[1]:source[2]]
    for name, data in made.items():
        put(root, name, bytes(data))

"""Single bits of files turned over, by what the byte is: headers and directories of zips, opcodes, texts and numbers of pickles, structure, texts and
numbers of JSON, headers of safetensors, trackers, names of files; and tensors' bytes. Knows where these are; nothing of what they mean."""
import os
import pickletools
import random
import re
import struct

import ranks
import torch_zip
from change import Change, copy, put

_TEXTS = ("UNICODE", "STRING", "GLOBAL", "INST", "BYTES")
_NUMBERS = ("INT", "LONG", "FLOAT")


def changes(fixture, _):
    for name in ranks.ends(fixture.files):
        data = fixture.read(name)
        for kind, spans, seal in regions(name, data):
            yield from _flips(fixture, name, data, kind, [span for span in spans if span[1] > span[0]], seal)
    yield from _names(fixture)


def _flips(fixture, name, data, kind, spans, seal):
    """Bits of one class of bytes of one file, chosen by their names alone."""
    choose = random.Random(f"{fixture.name} {name} {kind}")
    for _ in range(min(2, sum(hi - lo for lo, hi in spans))):
        lo, hi = choose.choice(spans)
        at, bit = choose.randrange(lo, hi), choose.randrange(8)
        yield Change(kind, f"{name}: bit {bit} of byte {at}", lambda root, at=at, bit=bit: put(root, name, _flipped(data, at, bit, seal)), (name,))


def _flipped(data, at, bit, seal):
    made = bytearray(data)
    made[at] ^= 1 << bit
    if seal:
        torch_zip.seal(made, seal)
    return bytes(made)


def regions(name, data):
    """(class, [(lo, hi), ...], archive whose checksums are made right afterwards) of a file."""
    last = os.path.basename(name)
    archives = torch_zip.find(data)
    if archives:
        yield from _of_zips(data, archives)
    elif last == ".metadata" or data[:1] == b"\x80":
        yield from _of_pickle(data, 0, len(data), "pickle")
    elif last.endswith(".json") or last == ".zarray":
        yield from _of_json(data, 0, len(data), "config.json" if last == "config.json" else "JSON")
    elif last.endswith(".safetensors"):
        (length,) = struct.unpack("<Q", data[:8])
        yield "safetensors length", [(0, 8)], None
        yield from _of_json(data, 8, 8 + length, "safetensors")
        yield "tensors outside of zips", [(8 + length, len(data))], None
    elif last.endswith(".txt"):
        yield "tracker", [(0, len(data))], None
    elif last.endswith(".h5"):
        yield "HDF5 file", [(0, len(data))], None
    else:
        yield "tensors outside of zips", [(0, len(data))], None


def _of_zips(data, archives):
    """Of the first and the last of a file's archives."""
    for archive in {archive.lo: archive for archive in (archives[0], archives[-1])}.values():
        records = archive.records
        yield "zip local headers", [(record.header, record.lo) for record in records], None
        yield "zip data descriptors", [(record.hi, record.end) for record in records], None
        yield "zip directory", [(record.central, record.central_end) for record in records], None
        yield "zip end", [(records[-1].central_end, archive.hi)], None
        yield "zip small records", [(r.lo, r.hi) for r in records if not r.name.endswith("data.pkl") and r not in torch_zip.tensors(archive)], None
        yield "tensors in zips", [(record.lo, record.hi) for record in torch_zip.tensors(archive)], None
        pickle = next((record for record in records if record.name.endswith("/data.pkl")), None)
        if pickle:
            yield from _of_pickle(data, pickle.lo, pickle.hi, "pickle in a zip")
            for kind, spans, _ in _of_pickle(data, pickle.lo, pickle.hi, "pickle with checksums made right"):
                yield kind, spans, archive


def _of_pickle(data, lo, hi, label):
    """Opcodes, texts, numbers; pickles may follow one another, tensors may follow them."""
    found, at = {"opcodes": [], "texts": [], "numbers": []}, lo
    while at < hi and data[at:at + 1] == b"\x80":
        try:
            operations = list(pickletools.genops(data[at:hi]))
        except (ValueError, IndexError):
            break
        ends = [position for *_, position in operations[1:]] + [operations[-1][2] + 1]
        for (operation, argument, position), end in zip(operations, ends):
            found["opcodes"].append((at + position, at + position + 1))
            kind = next(("texts" for part in _TEXTS if part in operation.name), next(("numbers" for part in _NUMBERS if part in operation.name), "opcodes"))
            if argument is not None:
                found[kind].append((at + position + 1, at + end))
        at += ends[-1]
    for kind, spans in found.items():
        yield f"{label}: {kind}", spans, None
    if at < hi:
        yield "tensors outside of zips", [(at, hi)], None


def _of_json(data, lo, hi, label):
    found = {"structure": [], "texts": [], "numbers": []}
    for token in re.finditer(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|[^"\d-]+|-', data[lo:hi]):
        kind = "texts" if token[0][:1] == b'"' else "numbers" if token[0][:1].isdigit() or token[0][1:2].isdigit() else "structure"
        found[kind].append((lo + token.start(), lo + token.end()))
    for kind, spans in found.items():
        yield f"{label}: {kind}", spans, None


def _names(fixture):
    """A digit of a rank's number that is another, a letter that is another, in names of files."""
    for name in fixture.files:
        place, _, last = name.rpartition("/")
        new = os.path.join(place, _next_letter(last))
        yield Change("file names", f"{name} to {new}", lambda root, name=name, new=new: _rename(root, name, new), (name, new))
        if ranks.parsed(name):
            for at, value in enumerate(ranks.coordinates(name)):
                new = ranks.renamed(name, at, value + 7)
                yield Change("file names", f"{name} to {new}", lambda root, name=name, new=new: _rename(root, name, new), (name, new))


def _next_letter(last):
    at = len(last) // 2
    return last[:at] + ("x" if last[at] != "x" else "y") + last[at + 1:]


def _rename(root, name, new):
    copy(root, name, new)
    os.remove(os.path.join(root, name))

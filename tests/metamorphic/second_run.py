"""The same checkpoint from a second run: other tensor bytes, steps further on, checksums that are right. Knows where numbers of steps are in pickles, and
tensors in files."""
import json
import os
import re
import struct

import torch_zip
from change import Change, put
from ranks import parsed, zarr_chunks

_STEPS = (b"iteration", b"consumed_train_samples", b"last_epoch", b"_step_count", b"step", b"num_steps", b"global_step")


def changes(fixture):
    """Each file taken from the second run alone; all files of a rank; all files but one."""
    made = {name: altered(name, fixture.read(name)) for name in fixture.files}
    chunks = {name for listed in zarr_chunks(fixture.files) for name in listed}
    made |= {name: _flipped(fixture.read(name)) for name in chunks}
    made = {name: data for name, data in made.items() if data is not None and data != fixture.read(name)}
    for name, data in made.items():
        yield Change("from a second run", name, lambda root, name=name, data=data: put(root, name, data), (name,))
    by_rank = {}
    for name in made:
        if parsed(name):
            by_rank.setdefault((parsed(name)[0], tuple(name[lo:hi] for lo, hi in parsed(name)[1])), []).append(name)
    for (family, rank), names in sorted(by_rank.items()):
        if len(names) > 1 and len(names) < len(made):
            yield Change("from a second run", f"all of {family} {'_'.join(rank)}",
                         lambda root, names=tuple(names): [put(root, name, made[name]) for name in names], tuple(names))


def altered(name, data):
    """A file's bytes as a second run would have written them; None for a file that has neither tensors nor steps."""
    last = os.path.basename(name)
    if last == "latest_checkpointed_iteration.txt":
        text = data.decode().strip()
        return str(int(text) + 10).encode() if text.isdigit() else None
    if last.endswith(".safetensors"):
        return _altered_safetensors(data)
    if last == ".metadata" or last.endswith((".json", ".txt", ".zarray")):
        return None
    zips = torch_zip.find(data)
    if zips:
        made = bytearray(data)
        for archive in zips:
            _alter_zip(made, archive)
        return bytes(made)
    if data[:1] == b"\x80":
        return _further_on(data)
    return None


def _flipped(data):
    """Other values of the same kind: the lowest bits of some bytes; never those of exponents."""
    made = bytearray(data)
    for i in range(0, len(made), 8):
        made[i] ^= 1
    return bytes(made)


def _altered_safetensors(data):
    (length,) = struct.unpack("<Q", data[:8])
    json.loads(data[8:8 + length])
    return data[:8 + length] + _flipped(data[8 + length:])


def _alter_zip(made, archive):
    """In place; checksums and the serialization id follow."""
    for record in archive.records:
        content = bytes(made[record.lo:record.hi])
        if re.search(r"/data/\d+$", record.name):
            made[record.lo:record.hi] = _flipped(content)
        elif record.name.endswith("/data.pkl"):
            made[record.lo:record.hi] = _further_on(content)
    torch_zip.seal(made, archive)


def _further_on(data):
    """A pickle whose numbers of steps are ten more: the key, or what stands for its second use, then a small integer."""
    for key in _STEPS:
        length = bytes([len(key)])
        found = re.search(b"(?:X" + re.escape(length) + b"\0\0\0|\x8c" + re.escape(length) + b")" + key + b"(q.|r....|\x94)", data, re.S)
        if not found:
            continue
        memo = found[1]
        forms = [re.escape(found[0])]
        if memo[:1] == b"q":
            forms.append(b"h" + re.escape(memo[1:]))
        elif memo[:1] == b"r":
            forms.append(b"j" + re.escape(memo[1:]))
        data = re.sub(b"(" + b"|".join(forms) + b")(K.|M..|J....)", _ten_more, data, flags=re.S)
    return data


def _ten_more(found):
    code, number = found[2][:1], found[2][1:]
    value = int.from_bytes(number, "little") + 10
    return found[1] + code + (value % 256 ** len(number)).to_bytes(len(number), "little")

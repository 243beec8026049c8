#!/usr/bin/env python3
"""Puts LoRA factors of rank 2 on the fp32 matrices of a legacy Megatron save of one rank, as Megatron-Bridge names them.

    add_factors.py FILE [OPTION=VALUE..]      changes FILE, a model_optim_rng.pt
    names=REGEX    of the weights, "X.weight" (default: all of two dims)
    sum=yes        adds 2 B A to the weights instead; sums are exact but for the last rounding, in any order
    bare=REGEX     names that get X.linear_in.weight beside X.weight (LinearAdapter), not X.adapter.linear_in.weight
    parts=q:N,...  canonical factors: rows of the weight are N of each label, one behind the other (not with sum)

Prints the names of the weights. Python's standard library only.
"""
import array
import io
import re
import sys

import damage

RANK = 2


def values(seed, n):
    """Small multiples of 1/16: all sums of their products are exact."""
    return array.array("f", ((((i * 7 + seed * 13) % 31) - 15) / 16 for i in range(n)))


def product(down, up, n_in):
    """2 B A, row by row."""
    first, second = down[:n_in], down[n_in:]
    for row in range(len(up) // RANK):
        left, right = 2 * up[RANK * row], 2 * up[RANK * row + 1]
        yield from (left * a + right * b for a, b in zip(first, second))


class Save:
    def __init__(self, path):
        self.path = path
        self.records = damage.records_of(path)
        data = self.records[damage.record_name(self.records, "data.pkl")]
        self.protocol = data[1]
        self.root = damage.Reader(io.BytesIO(data)).load()
        self.model = self.root["model"]

    def tensor(self, name):
        try:
            return damage.tensor(self.root, name)
        except AttributeError:
            return None

    def record(self, key):
        return damage.record_name(self.records, f"data/{key}")

    def bytes_of(self, name):
        """Of an fp32 tensor."""
        like = self.tensor(name)
        begin, (rows, cols) = 4 * like.args[1], like.args[2]
        return bytes(self.records[self.record(like.args[0].fields[2])][begin:begin + 4 * rows * cols])

    def put(self, name, like, shape, data):
        """A tensor of its own storage, otherwise as another one."""
        storage = damage.Storage(like.args[0].fields)
        key = f"factor{len(self.records)}"
        self.records[self.record(storage.fields[2]).rsplit("/", 1)[0] + "/" + key] = data.tobytes()
        storage.fields[2], storage.fields[4] = key, len(data)
        made = type(like)(storage, 0, tuple(shape), (shape[1], 1), *like.args[4:])
        self.model[name] = made

    def write(self):
        out = io.BytesIO()
        damage.Writer(out, self.protocol).dump(self.root)
        self.records[damage.record_name(self.records, "data.pkl")] = out.getvalue()
        damage.write_records(self.path, self.records)


def add(save, name, seed, options):
    like = save.tensor(name)
    rows, cols = like.args[2]
    stem = name[:-len("weight")]
    down = values(seed, RANK * cols)
    if "sum" in options:
        at = save.record(like.args[0].fields[2])
        weight = array.array("f", save.records[at])
        first = like.args[1]
        for i, change in enumerate(product(down, values(seed + 1, RANK * rows), cols)):
            weight[first + i] += change
        save.records[at] = weight.tobytes()
        return
    parts = [part.split(":") for part in options["parts"].split(",")] if "parts" in options else [("", rows)]
    up, begin = values(seed + 1, RANK * rows), 0
    for label, n in parts:
        at = stem if re.fullmatch(options.get("bare", "-"), name) else stem + "adapter." + (f"adapter_{label}." if label else "")
        save.put(at + "linear_in.weight", like, (RANK, cols), down)
        save.put(at + "linear_out.weight", like, (int(n), RANK), up[RANK * begin:RANK * (begin + int(n))])
        begin += int(n)


def add_to_ranks(saves, name, seed, whole, options):
    """As tensor-parallel ranks have it: each has rows of B, and of A rows where they share the weight's, else columns. `whole`: the shape of the weight."""
    n_in = whole[1]
    down, up = values(seed, RANK * n_in), values(seed + 1, RANK * saves[0].tensor(name).args[2][0] * len(saves))
    for rank, save in enumerate(saves):
        like = save.tensor(name)
        rows, cols = like.args[2]
        is_by_columns = cols != n_in
        own_down = array.array("f", (value for row in range(RANK) for value in down[row * n_in + rank * cols:row * n_in + (rank + 1) * cols])) if is_by_columns else down
        own_up = up[:RANK * rows] if is_by_columns or rows == whole[0] else up[RANK * rows * rank:RANK * rows * (rank + 1)]
        if "sum" in options:
            at = save.record(like.args[0].fields[2])
            weight = array.array("f", save.records[at])
            for i, change in enumerate(product(own_down, own_up, cols)):
                weight[like.args[1] + i] += change
            save.records[at] = weight.tobytes()
            continue
        of_rank = rows // len(saves)
        if is_by_columns:
            own_up = own_up[RANK * of_rank * rank:RANK * of_rank * (rank + 1)]
        elif rows != whole[0]:
            own_down = own_down[n_in * RANK // len(saves) * rank:n_in * RANK // len(saves) * (rank + 1)]
        stem = name[:-len("weight")] + "adapter."
        save.put(stem + "linear_in.weight", like, (len(own_down) // cols, cols), own_down)
        save.put(stem + "linear_out.weight", like, (len(own_up) // RANK, RANK), own_up)


def main():
    options = dict(option.split("=", 1) for option in sys.argv[2:])
    save, found = Save(sys.argv[1]), []
    for seed, name in enumerate(sorted(name for name in save.model if isinstance(name, str))):
        tensor = save.tensor(name) if re.fullmatch(options.get("names", ".*"), name) and name.endswith(".weight") else None
        if tensor is not None and len(tensor.args[2]) == 2 and tensor.args[0].fields[1].place[1] == "FloatStorage":
            found.append(name)
            add(save, name, seed, options)
    if not found:
        sys.exit(f"add_factors: no weight of {sys.argv[1]} is called so")
    print(*found, sep="\n")
    save.write()


if __name__ == "__main__":
    main()

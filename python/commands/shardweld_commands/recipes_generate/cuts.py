"""Tensors that saving cuts anew, as lines of a recipe."""
import re

import transformers

from .models import Refused, hidden
from .names import CAPTURES, ELEMENT, Renames, filled, name_rules, with_numbers

def order_of(places):
    """("plain", first) or ("turned", first, blocks, p, q): rows (blocks p q) in the order (blocks q p)."""
    first, n = min(places), len(places)
    steps = [place - first for place in places]
    if steps == list(range(n)):
        return "plain", first
    for blocks in range(1, n // 4 + 1):
        size = n // blocks
        for p in range(2, size) if n % blocks == 0 else ():
            q = size // p
            if size % p == 0 and steps == [b * size + y * q + x for b in range(blocks) for x in range(q) for y in range(p)]:
                return "turned", first, blocks, p, q
    raise Refused("rows in an order that no rule says")


class Piece:
    """What one saved tensor has of one stored tensor: a box of each, and for each dim of the stored one the saved one's and the order."""

    def __init__(self, trace, stored, saved):
        number, value = trace.order[stored] + 1, trace.saved[saved]
        at = (value // ELEMENT == number).nonzero()
        self.low, high = at.min(0).values.tolist(), (at.max(0).values + 1).tolist()
        box = value[tuple(slice(a, b) for a, b in zip(self.low, high))]
        if not (box // ELEMENT == number).all():
            raise Refused("rows of two tensors in turn")
        self.extents, rest, self.dims = list(box.shape), box % ELEMENT, []
        shape = trace.shapes[number - 1]
        for extent in reversed(shape):
            self.dims.insert(0, self.dim(rest % extent))
            rest = rest // extent
        # Dims of extent 1 stand for those that nothing tells apart.
        used = {dim for dim, _ in self.dims if dim is not None}
        idle = [dim for dim in range(value.dim()) if dim not in used]
        missing = len(shape) - value.dim()
        for i, (dim, order) in enumerate(self.dims):
            if dim is None and idle and not (missing > 0 and shape[i] > 1):
                self.dims[i] = (idle.pop(0), ("plain", order[1]))
        if idle:
            raise Refused("a dim that the stored tensor does not have")

    @staticmethod
    def dim(places):
        moving = [k for k in range(places.dim()) if places.shape[k] > 1 and not (places == places.narrow(k, 0, 1)).all()]
        if len(moving) > 1:
            raise Refused("dims made one, or one made dims")
        if not moving:
            return None, ("fixed", int(places.reshape(-1)[0]))
        line = places
        for k in range(places.dim() - 1, -1, -1):
            line = line if k == moving[0] else line.select(k, 0)
        return moving[0], order_of(line.tolist())


class Cut:
    """The lines of a group: one tensor on one side, parts of it on the other."""

    LETTERS, LABELS = "abcdfgh", "xyzuvwst"

    def __init__(self, trace, stored, saved, heads):
        self.lets, self.heads = {}, heads
        self.is_split = len(stored) == 1  # the stored tensor is the whole
        pieces = [(one, Piece(trace, stored[0] if self.is_split else one, one if self.is_split else saved[0])) for one in (saved if self.is_split else stored)]
        whole = stored[0] if self.is_split else saved[0]
        if not self.is_split and len(saved) != 1:
            raise Refused("several tensors made of several")
        self.whole, self.parts = self.lines(whole, pieces, trace)

    def lines(self, whole, pieces, trace):
        shape = trace.shapes[trace.order[whole]] if self.is_split else tuple(trace.saved[whole].shape)
        rank = len(shape)
        spans = []  # per piece and dim of the whole: (first, extent, dim of the part, order)
        for name, piece in pieces:
            row = [None] * rank
            for i, (dim, order) in enumerate(piece.dims):
                if self.is_split:
                    extent = piece.extents[dim] if dim is not None else 1
                    row[i] = (order[1], extent, dim, order)
                elif dim is not None:
                    row[dim] = (piece.low[dim], piece.extents[dim], i, order)
            for d in range(rank):
                row[d] = row[d] or (piece.low[d], 1, None, ("fixed", 0))
            spans.append(row)
        labels, axes, numbers = [""] * len(pieces), [], [None] * len(pieces)
        part_axes = [{} for _ in pieces]
        for d in range(rank):
            column = [row[d] for row in spans]
            if all(one[2] is None for one in column):
                axes.append("e")
                for k, one in enumerate(column):
                    numbers[k] = one[0]
                continue
            letter = self.LETTERS[d]
            starts = sorted({one[0] for one in column})
            is_cut = len(starts) > 1
            if is_cut and any(labels):
                raise Refused("cut along two dims")
            # A tensor that is cut in equal parts says how large they are; parts that are joined say it themselves.
            if is_cut and self.is_split and len(set({start: extent for start, extent, _, _ in column}.values())) != 1:
                raise Refused("cut in parts of several sizes")
            wholes = []
            for i, start in enumerate(starts):
                order = next(one[3] for one in column if one[0] == start)
                text, part = self.ordered(f"{letter}{i}" if is_cut and not self.is_split else letter, order)
                wholes.append(text if self.is_split else part)
                for k, one in enumerate(column):
                    if one[0] == start:
                        labels[k] = self.LABELS[i] if is_cut else labels[k]
                        part_axes[k][one[2]] = part if self.is_split else text
            named = " | ".join(f"{label}: {one.strip('()')}" for label, one in zip(self.LABELS, wholes))
            axes.append(f"[{named}]" if is_cut else wholes[0])
        parts = []
        for k, (name, _) in enumerate(pieces):
            layout = " ".join(part_axes[k][dim] for dim in sorted(part_axes[k]))
            parts.append((name, numbers[k], (labels[k] + ": " if labels[k] else "") + layout))
        return (whole, " ".join(axes)), parts

    def ordered(self, letter, order):
        """The dim in the stored tensor and in the saved one."""
        if order[0] != "turned":
            return letter, letter
        _, _, blocks, p, q = order
        if blocks == 1 and 2 in (p, q):
            self.lets["two"] = "2"
            items = ("two", letter) if p == 2 else (letter, "two")
            return f"({items[0]} {items[1]})", f"({items[1]} {items[0]})"
        field = next((path for path, value in self.heads if value == blocks), None)
        if field is None or p != 2:
            raise Refused("rows turned in blocks whose number no field says")
        self.lets["two"], self.lets["n"] = "2", f"@{field}"
        return f"(n two {letter})", f"(n {letter} two)"


def head_fields(config, name):
    """Fields with numbers of attention heads, those of the tower that the name is of first."""
    whole = config.to_dict()
    found = [(f"{key}.num_attention_heads", part["num_attention_heads"]) for key, part in whole.items()
             if isinstance(part, dict) and isinstance(part.get("num_attention_heads"), int)]
    found.sort(key=lambda one: ("vision" in name) != ("vision" in one[0]))
    return found + [(key, whole[key]) for key in ("num_attention_heads",) if isinstance(whole.get(key), int)]


class Rules:
    """What saving does to small models of one type, added one by one."""

    def __init__(self):
        self.same, self.cuts, self.cut, self.renamings = {}, [], set(), []

    def add(self, trace):
        """Refused where it contradicts the others."""
        pairs, groups = trace.parts()
        if any(self.same.setdefault(stored, saved) != saved for stored, saved in pairs):
            raise Refused("names that other settings change")
        for stored, saved in groups:
            self.cut.update(stored)
            self.cuts.append((stored, saved, Cut(trace, stored, saved, head_fields(trace.model.config, stored[0]))))
        if self.cut & set(self.same):
            raise Refused(f"{min(self.cut & set(self.same))} is cut with some settings, and not with others")
        self.renamings = self.renamings or trace.renamings()

    def recipe(self, model_type, name):
        """Its text, and whether it cuts tensors, and renames some."""
        renames = Renames(name_rules(self.same.items()), self.renamings).out
        lines, lets, seen = [], {}, {}
        for stored, saved, cut in self.cuts:
            key = (tuple(dict.fromkeys(hidden(one)[0] for one in stored)), tuple(sorted({hidden(one)[0] for one in saved})))
            rows = generalise(cut, renames)
            if seen.setdefault(key, rows) is not rows:
                if seen[key] != rows:
                    raise Refused(f"{stored[0]} is cut in another way than its like")
                continue
            lets.update(cut.lets)
            lines += [(f"{kind} {one}", f"r{len(seen)}{logical} {layout}") for kind, one, logical, layout in rows]
        return text_of(model_type, name, renames, lines, lets), bool(lines), bool(renames)


def renamed(name, renames):
    best = max((rule for rule in renames if matches(rule[0], name)), key=lambda rule: len(rule[0]), default=None)
    if best is None:
        return name
    found = matches(best[0], name)
    return filled(best[1], {key: int(value) for key, value in found.groupdict().items()}) + name[found.end():]


def matches(pattern, name):
    return re.match(re.sub(r"\\\{(\w)\\\}", r"(?P<\1>\\d+)", re.escape(pattern)), name)


def generalise(cut, renames):
    """Rows (kind, name, captures of the logical tensor, layout) with captures for numbers of layers, and {e} for the one that counts parts."""
    whole, layout = cut.whole
    tree, hub = ("tree", "hub") if cut.is_split else ("hub", "tree")
    whole = renamed(whole, renames) if cut.is_split else whole
    shape, numbers = hidden(whole)
    captures = CAPTURES[:len(numbers)]
    rows = [(tree, with_numbers(shape, ["{" + c + "}" for c in captures]), "".join(".{" + c + "}" for c in captures), layout)]
    for name, number, part_layout in cut.parts:
        name = name if cut.is_split else renamed(name, renames)
        part_shape, part_numbers = hidden(name)
        spare, texts, counts = list(zip(captures, numbers)), [], number is not None
        if counts and part_numbers[-1:] != (number,):
            raise Refused(f"{name} does not say which part it is")
        for value in part_numbers[:-1] if counts else part_numbers:
            match = next((one for one in spare if one[1] == value), None)
            spare = [one for one in spare if one is not match]
            texts.append("{" + match[0] + "}" if match else str(value))
        texts += ["{e}"] if counts else []
        if spare:
            raise Refused(f"{name} does not say which layer it is of")
        rows.append((hub, with_numbers(part_shape, texts), rows[0][2], part_layout))
    return list(dict.fromkeys(rows))


def text_of(model_type, name, renames, lines, lets):
    words = set(re.findall(r"\b[a-z]\d?\b", " ".join(re.sub(r"\w+:", "", layout.split(" ", 1)[1]) for _, layout in lines)))
    words |= set(re.findall(r"\{(\w)\}", " ".join(name for name, _ in lines)))
    sized = sorted(words - set(lets))
    out = [f"# Made by shardweld recipes generate of transformers {transformers.__version__}; proved against its save_pretrained.",
           f"recipe {name}", "format 1", "uses none", f'match @model_type = "{model_type}"', "pass *"]
    out += ["sized " + " ".join(sized)] if sized else []
    out += [f"let {name} = {value}" for name, value in sorted(lets.items())]
    out += [f"rename {a} = {b}" for a, b in renames]
    return "\n".join(out + [f"{name} = {layout}" for name, layout in lines]) + "\n"

"""What saving does to names: each element of a small model is followed through it, and rules are made of that."""
import collections
import re

import torch
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import PrefixChange, WeightRenaming, apply_renamings, revert_weight_conversion
from transformers.modeling_utils import remove_tied_weights_from_state_dict

from .models import Refused, hidden

ELEMENT = 1 << 40
CAPTURES = "lijkmn"


class Trace:
    """Which element of which stored tensor each element of the saved ones is."""

    def __init__(self, model):
        self.model = model
        stored = dict(model.state_dict())
        once = remove_tied_weights_from_state_dict(dict(stored), model)
        self.names = [name for name in stored if name in once and stored[name].numel()]
        self.shapes = [tuple(stored[name].shape) for name in self.names]
        numbers = {n: torch.arange(stored[n].numel()).reshape(stored[n].shape) + (i + 1) * ELEMENT for i, n in enumerate(self.names)}
        self.saved = revert_weight_conversion(model, dict(numbers))
        self.order = {name: i for i, name in enumerate(self.names)}

    def renamings(self):
        mapping = [one for one in get_model_conversion_mapping(self.model, add_legacy=False) if not isinstance(one, PrefixChange)]
        return [one.reverse_transform() for one in mapping[::-1] if isinstance(one, WeightRenaming)]

    def parts(self):
        """Pairs of names of what is only renamed, and groups (stored names, saved names) of what is cut anew."""
        edges = {name: (torch.unique(value.reshape(-1) // ELEMENT) - 1).tolist() for name, value in self.saved.items()}
        users = collections.Counter(i for sources in edges.values() for i in sources)
        same, groups = [], []
        for name, sources in edges.items():
            i = sources[0]
            if i < 0:
                raise Refused(f"{name} is saved with elements that no stored tensor has")
            whole = torch.arange(self.saved[name].numel()) + (i + 1) * ELEMENT
            if len(sources) == 1 and users[i] == 1 and tuple(self.saved[name].shape) == self.shapes[i] and torch.equal(self.saved[name].reshape(-1), whole):
                same.append((self.names[i], name))
                continue
            group = ({self.names[i] for i in sources}, {name})
            for other in [one for one in groups if one[0] & group[0]]:
                groups.remove(other)
                group = (group[0] | other[0], group[1] | other[1])
            groups.append(group)
        saved_order = {name: i for i, name in enumerate(self.saved)}
        return same, [(sorted(a, key=self.order.get), sorted(b, key=saved_order.get)) for a, b in groups]


def with_numbers(shape, numbers):
    given = iter(numbers)
    return ".".join(str(next(given)) if part == "#" else part for part in shape)


def pattern_of(shape, members, fixed):
    """The rule of names of one shape whose numbers at `fixed` are one each; None where the others do not follow."""
    targets = {hidden(to)[0] for _, to in members}
    if len(targets) != 1:
        return None
    target = targets.pop()
    free = [i for i in range(shape.count("#")) if i not in fixed]
    uses, taken = [], {}
    for t in range(target.count("#")):
        ys = [hidden(to)[1][t] for _, to in members]
        same = next((i for i in free if i not in taken and [numbers[i] for numbers, _ in members] == ys), None)
        if same is not None:
            taken[same] = CAPTURES[len(taken)]
            uses.append("{" + taken[same] + "}")
        elif len(set(ys)) == 1:
            uses.append(str(ys[0]))
        else:
            return None
    if any(i not in taken and len({numbers[i] for numbers, _ in members}) > 1 for i in free):
        return None
    first = members[0][0]
    return with_numbers(shape, ["{" + taken[i] + "}" if i in taken else first[i] for i in range(len(first))]), with_numbers(target, uses)


def name_rules(pairs):
    """(pattern, pattern) for names that are only renamed."""
    groups = collections.defaultdict(list)
    for stored, saved in pairs:
        shape, numbers = hidden(stored)
        groups[shape].append((numbers, saved))
    rules = []
    for shape, members in groups.items():
        n = shape.count("#")
        subsets = sorted((tuple(i for i in range(n) if mask >> i & 1) for mask in range(1 << n)), key=len)
        found = next((some for some in (rules_with(shape, members, fixed) for fixed in subsets) if some), None)
        if found is None:
            raise Refused(f"no rule for the name {'.'.join(shape)}")
        rules += found
    return rules


def rules_with(shape, members, fixed):
    by_number = collections.defaultdict(list)
    for numbers, saved in members:
        by_number[tuple(numbers[i] for i in fixed)].append((numbers, saved))
    found = [pattern_of(shape, some, fixed) for some in by_number.values()]
    return None if None in found else found


def filled(text, numbers):
    return re.sub(r"\{(\w)\}", lambda found: str(numbers[found[1]]), text)


class Renames:
    """Few rules for beginnings of names, of which transformers makes the same for other names below a module."""

    def __init__(self, rules, renamings):
        self.renamings, self.out = renamings, []
        self.below([], [(a.split("."), b.split(".")) for a, b in rules], ([], []))

    def head_of(self, prefix, leaves):
        """What transformers makes of a name below the prefix that no class has; None where it is not told by a rule of ours."""
        numbers = {capture: i + 5 for i, capture in enumerate(CAPTURES)}
        made = apply_renamings(filled(".".join(prefix), numbers) + ".shardweld.weight", self.renamings)
        for a, b in leaves:
            rest = a[len(prefix):]
            if rest and b[-len(rest):] == rest and filled(".".join(b[:-len(rest)] + ["shardweld", "weight"]), numbers) == made:
                head = b[:-len(rest)]
                if set(re.findall(r"\{(\w)", ".".join(head))) == set(re.findall(r"\{(\w)", ".".join(prefix))):
                    return head
        return None

    def below(self, prefix, leaves, above):
        """`above`: the rule that holds if none is added."""
        whole = [(a, b) for a, b in leaves if len(a) == len(prefix)]
        leaves = [(a, b) for a, b in leaves if len(a) > len(prefix)]
        for a, b in whole:
            if b != above[1] + a[len(above[0]):]:
                self.out.append((".".join(a), ".".join(b)))
        if all(b == above[1] + a[len(above[0]):] for a, b in leaves):
            return
        head = self.head_of(prefix, leaves) if prefix else None
        if head is not None and head and head != above[1] + prefix[len(above[0]):]:
            self.out.append((".".join(prefix) + ".", ".".join(head) + "."))
            above = (prefix, head)
        children = collections.defaultdict(list)
        for leaf in leaves:
            children[leaf[0][len(prefix)]].append(leaf)
        for child, some in children.items():
            self.below(prefix + [child], some, above)

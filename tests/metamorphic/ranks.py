"""Files of ranks: their coordinates by name, what else could be called so. Knows the names of every layout; nothing of contents."""
import re
from collections import defaultdict

# Family of names: pattern with the coordinates as groups.
_PATTERNS = (
    (r"mp_rank_(\d\d+)(?:_(\d\d\d))?(?:_(\d\d\d))?/[^/]+$", "mp_rank"),
    (r"__(\d+)_(\d+)\.distcp$", "distcp"),
    (r"(?:model|optim|extra_state)_world_size_\d+_rank_(\d+)\.pt$", "world"),
    (r"rank_(\d+)\.h5$", "h5"),
    (r"(?:shard-(\d{5})-)?model-(\d{5})-of-\d{5}\.(?:safetensors|bin)$", "of"),
    (r"pytorch_model-(\d{5})-of-\d{5}\.bin$", "of"),
    (r"\.zarray$", "zarray"),
)


def parsed(name):
    """(family, spans of the coordinates) of a relative path; None for a file of no rank."""
    for pattern, family in _PATTERNS:
        found = re.search(pattern, name)
        if found and found.groups():
            return family, tuple(found.span(i + 1) for i in range(len(found.groups())) if found.group(i + 1) is not None)
    return None


def coordinates(name):
    return tuple(int(name[lo:hi]) for lo, hi in parsed(name)[1])


def renamed(name, at, value):
    """The name with coordinate `at` being `value`, as wide as it was."""
    lo, hi = parsed(name)[1][at]
    return name[:lo] + str(value).zfill(hi - lo if hi - lo > 1 else 1) + name[hi:]


def families(names):
    """Lists of files that differ only in coordinates: {pattern: [name, ...]} sorted by coordinates."""
    found = defaultdict(list)
    for name in names:
        known = parsed(name)
        if known:
            text, last = "", 0
            for lo, hi in known[1]:
                text, last = text + name[last:lo] + "#", hi
            found[text + name[last:]].append(name)
    return {key: sorted(listed, key=coordinates) for key, listed in sorted(found.items())}


def ends(names):
    """Files of no rank, and of files that differ only in rank, or are chunks of arrays, the first and the last: what stands for all where each would take long."""
    alike = list(families(names).values())
    chunks = [name for listed in zarr_chunks(names) for name in listed]
    alike.append(chunks)
    alike.append([name for name in names if name.endswith("/.zarray")])
    many = {name for listed in alike for name in listed}
    kept = {name for listed in alike for name in (listed[:1] + listed[-1:])}
    return [name for name in names if name not in many or name in kept]


def zarr_chunks(names):
    """Chunks of one array each: [[name, ...], ...]."""
    found = defaultdict(list)
    arrays = {name.rsplit("/", 1)[0] for name in names if name.endswith("/.zarray")}
    for name in names:
        place, _, last = name.rpartition("/")
        if place in arrays and re.fullmatch(r"\d+(\.\d+)*", last):
            found[place].append(name)
    return [sorted(listed) for _, listed in sorted(found.items())]

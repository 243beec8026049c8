"""docs/measurements/changed-checkpoints.md from docs/measurements/metamorphic.json and the list of what cannot be detected. Knows the record and the list;
nothing of how they come about."""
import json
import os
import sys
from collections import Counter

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import marked_page
from marked_page import table

SCHEMA = 1
_OUTCOMES = ("refused", "same", "listed", "failed")
# How kinds of change begin, by what the page calls them.
_GROUPS = {
    "files exchanged, rotated, copied over, doubled": ("exchanged", "rotated", "copied over", "doubled"),
    "files left out or renamed": ("left out", "renamed", "file names"),
    "files of a sibling or a second run": ("from a",),
    "fields of `config.json`": ("config flag", "config integer", "config key"),
    "bytes of `config.json` and other JSON": ("config.json", "JSON"),
    "bytes of pickles": ("pickle",),
    "records of archives, and their names": ("records",),
    "structure of zip files": ("zip",),
    "bytes of safetensors headers and HDF5 files": ("safetensors", "HDF5"),
    "bytes of tensors": ("tensors",),
    "side files, also during the merge": ("side file",),
    "trackers": ("tracker",),
}
_LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "undetectable.json")


def load(path):
    """The record; {} when there is none."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def put(root, record):
    path = os.path.join(root, "docs/measurements/metamorphic.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(marked_page.text_of(record))
    os.replace(path + ".part", path)
    update(root)


def update(root, check=False):
    """Whether the page is (`check`) or could be made what the record and the list say."""
    record = load(os.path.join(root, "docs/measurements/metamorphic.json"))
    path = os.path.join(root, "docs/measurements/changed-checkpoints.md")
    if marked_page.update(path, {"metamorphic": kinds, "metamorphic-layouts": layouts, "undetectable": undetectable}, record, check):
        return True
    print(f"{path} is not what {_LIST} renders to: run scripts/metamorphic.sh --render")
    return False


def kinds(record):
    """One row for each group of kinds, and one for all; the record has each kind."""
    counts, total = {group: Counter() for group in _GROUPS}, Counter()
    for kind, one in record.get("kinds", {}).items():
        group = next((group for group, beginnings in _GROUPS.items() if kind.startswith(beginnings)), kind)
        counts.setdefault(group, Counter()).update(one)
        total.update(one)
    rows = [(group, *_row(count)) for group, count in counts.items() if count]
    return table(("change", "tried", *_OUTCOMES), [*rows, ("**all**", *_row(total))] if rows else [])


def layouts(record):
    counts = record.get("layouts", {})
    return table(("layout", "checkpoints", "changes", *_OUTCOMES), [(name, counts[name]["fixtures"], *_row(counts[name])) for name in sorted(counts)])


def _row(counts):
    numbers = [counts.get(outcome, 0) for outcome in _OUTCOMES]
    return (sum(numbers), *numbers)


def undetectable(record):
    """The list with how often each entry explained a difference in the last whole run."""
    used = record.get("listed", {})
    return table(("what changes unseen", "why it cannot be known", "of the changes tried"),
                 [(entry["about"], entry["reason"], used.get(entry["id"], 0)) for entry in load(_LIST)["entries"]])

"""docs/measurements/changed-checkpoints.md from docs/measurements/metamorphic.json and the list of what cannot be detected. Knows the record and the list;
nothing of how they come about."""
import json
import os
import sys
from collections import Counter, defaultdict

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import marked_page
from marked_page import table

SCHEMA = 1
_OUTCOMES = ("refused", "same", "listed", "failed")
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
    """One row for each kind of change ("JSON: numbers" and "JSON: texts" share one), and one for all."""
    counts, total = defaultdict(Counter), Counter()
    for kind, one in record.get("kinds", {}).items():
        counts[kind.partition(":")[0]].update(one)
        total.update(one)
    rows = [(kind, *_row(counts[kind])) for kind in sorted(counts)]
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

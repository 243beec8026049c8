"""Judges what came of a change: refused, the same, listed, or a failure. Knows the list of what cannot be detected (undetectable.json); nothing of how
changes are made."""
import json
import os
import re
from dataclasses import dataclass

import merge

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "undetectable.json")


@dataclass(frozen=True)
class Verdict:
    outcome: str        # refused, same, listed, failed; idle: what was to happen meanwhile did not
    code: int
    detail: str         # what differs, or the message of a refusal
    entries: tuple = () # of the list


def load(path=LIST):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["entries"]


def judge(fixture, change, done, expected, entries):
    """`expected`: the model of the unchanged checkpoint."""
    found = merge.problems(done)
    if found:
        return Verdict("failed", done.code, "; ".join(found) + ": " + done.stderr.strip()[:300])
    if done.code != 0:
        return Verdict("refused", done.code, done.stderr.strip()[:300])
    if change.meanwhile and not done.struck:
        return Verdict("idle", 0, "")
    kind, detail = merge.difference(done.model, expected)
    if not kind or kind == "files" and change.is_given and _is_handed_on(change, done, detail):
        return Verdict("same", 0, "")
    listed = _listed(entries, fixture, change, kind, detail)
    return Verdict("listed" if listed else "failed", 0, f"{kind}: {detail}", listed)


def _is_handed_on(change, done, detail):
    """Whether the files that differ are those that were changed, whole: tokenizers and code are handed on as they are found at the first look, which falls
    into one of the first two phases. What a link leads to is not compared."""
    touched = {os.path.basename(name) for name in change.touches}
    names = detail.split(", ")
    return all(os.path.basename(name) in touched for name in names) and (
        not change.meanwhile or re.search("phase=(survey|bind)", change.meanwhile) and (
            "do=link" in change.meanwhile or all(done.model.others.get(name) in (None, *done.inputs) for name in names)))


def _listed(entries, fixture, change, kind, detail):
    """Ids of entries that explain the difference; of config.json every key that differs has to be explained."""
    fitting = [entry for entry in entries if entry["differs"] == kind and change.kind in entry["changes"]
               and re.search(entry.get("fixtures", ""), f"{fixture.layout} {fixture.name}") and re.search(entry.get("what", ""), change.what)]
    if kind != "config":
        return tuple(entry["id"] for entry in fitting[:1])
    found = []
    for part in detail.split("; "):
        key = part.split(": ")[0]
        entry = next((entry for entry in fitting if any(re.fullmatch(pattern, key) for pattern in entry["keys"])), None)
        if entry is None:
            return ()
        found.append(entry["id"])
    return tuple(sorted(set(found)))

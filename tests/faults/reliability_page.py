"""docs/measurements/reliability.md from docs/measurements/reliability.json, counts of fuzzing from docs/measurements/fuzzing.json and of changed checkpoints from docs/measurements/metamorphic.json where
they are there. Knows the records and the tables; nothing of how they come about.

docs/measurements/reliability.json: {"schema": 1, "faults": {...}, "signals": {...}, "watched": {...}, "kills": {...}, "bad_inputs": {...}, "sanitizers": {...}}; each of
them has `date` and `tool`, and takes the place of the older one as a whole; of faults each scenario does."""
import json
import os
import sys
from collections import Counter, defaultdict

sys.path += [os.path.join(os.path.dirname(__file__), place) for place in ("../support", "../metamorphic")]
import marked_page
from marked_page import table

import page as metamorphic
import program
import scenarios

SCHEMA = 1


def load(path):
    if not os.path.exists(path):
        return {"schema": SCHEMA}
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if content.get("schema") != SCHEMA:
        raise SystemExit(f"{path} has schema {content.get('schema')}, this program writes {SCHEMA}")
    return content


def put(path, name, record, made):
    """`made`: when and by what."""
    content = load(path)
    if name == "faults":
        old = {one["name"]: one for one in content.get("faults", {}).get("scenarios", ())}
        new = {one["name"]: dict(one, **made) for one in record["scenarios"]}
        known = [scenario.name for scenario, _ in scenarios.FULL]
        record = {"scenarios": [new.get(one) or old[one] for one in known if one in new or one in old]}
    content[name] = dict(record, **made)
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(marked_page.text_of(content))
    os.replace(path + ".part", path)


def update(page_path, json_path, check=False):
    return marked_page.update(page_path, _tables(os.path.dirname(json_path)), load(json_path), check)


def _tables(docs):
    changed = metamorphic.load(os.path.join(docs, "metamorphic.json"))
    return {"summary": lambda content: _summary(content, _fuzzing(os.path.join(docs, "fuzzing.json")), changed), "faults": _faults, "scenarios": _scenarios,
            "kills": _kills, "signals": _signals, "watched": _watched, "bad-inputs": _bad_inputs, "sanitizers": _sanitizers}


def _fuzzing(path):
    """{target: executions}"""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return {name: target["executions"] for name, target in json.load(file)["targets"].items()}


def _tried(content):
    """[phase, side, call, what, outcome, n] of all scenarios."""
    return [row for scenario in content["faults"]["scenarios"] for row in scenario["tried"]]


def _summary(content, fuzzing, changed):
    rows = []
    if "faults" in content:
        tried = _tried(content)
        outcomes = Counter()
        for *_, outcome, n in tried:
            outcomes[outcome] += n
        rows.append(("faults injected", sum(outcomes.values()), f"{outcomes['whole']} merged anyway, {outcomes['refused']} refused, {outcomes['resumed']} resumed from what was kept", 0))
        rows.append(("points of injection (phase, files, call)", len({(phase, side, call) for phase, side, call, *_ in tried}), "each was hit", ""))
    if "kills" in content:
        kills = content["kills"]["kills"]
        rows.append(("ranks killed, then resumed", len(kills), "all byte-identical", 0))
    if "watched" in content:
        merges = content["watched"]["merges"]
        looks = sum(sum(one["looks"].values()) for one in merges)
        rows.append(("looks of a reader at the target", f"{looks:,}", f"during {len(merges)} merges, {sum(bool(one['phase']) for one in merges)} of them killed: nothing, the old model whole, or the new one whole", 0))
    if "signals" in content:
        came = Counter(one["came"] for one in content["signals"]["signals"])
        rows.append(("signals during publication", sum(came.values()), f"{came['published']} published, {came['resumed']} as before, then resumed", 0))
    if "bad_inputs" in content:
        codes = [code for one in content["bad_inputs"]["sets"] for code, n in one["codes"].items() for _ in range(n)]
        rows.append(("bad inputs", len(codes), f"{sum(code != '0' for code in codes)} refused, {sum(code == '0' for code in codes)} merged (damage outside of what is used, or in values)", ""))
    if changed:
        counts = sum((Counter(one) for one in changed["kinds"].values()), Counter())
        rows.append(("checkpoints with a change", sum(counts[outcome] for outcome in ("refused", "same", "listed", "failed")), f"{counts['refused']} refused, {counts['same']} gave the same model, "
                     f"{counts['listed']} are on [the list](changed-checkpoints.md#what-cannot-be-detected) of what no file shows", counts["failed"]))
    if fuzzing:
        rows.append(("fuzz executions", f"{sum(fuzzing.values()):,}", f"{len(fuzzing)} targets, no finding left ([hostile-inputs.md](hostile-inputs.md))", ""))
    if "sanitizers" in content:
        runs = content["sanitizers"]["runs"]
        rows.append(("runs under sanitizers", len(runs), f"{sum(run['tests'] for run in runs)} tests, {sum(run['failed'] for run in runs)} failed", ""))
    return table(("tried", "how many", "outcome", "lost"), rows)


def _faults(content):
    """One row for each kind of files; the record has each call and phase."""
    if "faults" not in content:
        return table((), [])
    calls, kinds, outcomes = defaultdict(set), defaultdict(set), defaultdict(Counter)
    for _, side, call, what, outcome, n in _tried(content):
        calls[side].add(call)
        kinds[side].add(what)
        outcomes[side][outcome] += n
    rows = [("memory" if side == "none" else side, ", ".join(sorted(calls[side], key=program.CALLS.index)), ", ".join(sorted(kinds[side])),
             outcomes[side]["whole"], outcomes[side]["refused"], outcomes[side]["resumed"]) for side in program.SIDES if side in calls]
    return table(("on", "calls", "failures", "merged", "refused", "resumed"), rows)


def _scenarios(content):
    rows = [(one["name"], one["effort"], one["faults"]) for one in content.get("faults", {}).get("scenarios", ())]
    return table(("merge", "faults at", "faults injected"), rows)


def _kills(content):
    groups = defaultdict(list)
    for kill in content.get("kills", {}).get("kills", ()):
        groups[kill["phase"], "yes" if kill["sync"] else "no"].append(kill)
    rows = []
    for (phase, sync), kills in sorted(groups.items(), key=lambda item: (program.PHASES.index(item[0][0]), item[0][1])):
        written = [kill["written"] for kill in kills]
        reused = [kill["reused"] for kill in kills]
        rows.append((phase, sync, _all(kills, "ranks"), _all(kills, "strategy"), len(kills), _all(kills, "code"), f"{max(kill['seconds'] for kill in kills):.1f}",
                     f"{min(written):.0%} - {max(written):.0%}", f"{min(reused):.0%} - {max(reused):.0%}", len(kills)))
    return table(("phase", "synced", "ranks", "strategies", "kills", "exit codes", "job ended within, s", "written at the kill", "reused by `--resume`", "byte-identical"), rows)


def _all(records, name):
    return ", ".join(map(str, sorted({record[name] for record in records})))


def _signals(content):
    groups = defaultdict(list)
    for one in content.get("signals", {}).get("signals", ()):
        groups[one["to"], "twice" if len(one["signals"]) > 1 else "once", one["came"]].append(one)
    rows = [(to, times, ", ".join(dict.fromkeys(one["signals"][0] for one in ones)), _all(ones, "target"), _all(ones, "code"), len(ones), came)
            for (to, times, came), ones in groups.items()]
    return table(("sent to", "times", "signals", "targets", "exit codes", "merges", "model"), rows)


def _watched(content):
    groups = defaultdict(list)
    for one in content.get("watched", {}).get("merges", ()):
        groups[one["target"], "yes" if one["phase"] else "no"].append(one)
    rows = [(*key, len(ones), _all(ones, "code"), f"{max(one['seconds'] for one in ones):.1f}",
             *(f"{sum(one['looks'][what] for one in ones):,}" for what in ("absent", "old", "new")), 0) for key, ones in groups.items()]
    return table(("target", "killed", "merges", "exit code", "job ended within, s", "saw nothing", "saw the old model", "saw the new model", "saw a part"), rows)


def _bad_inputs(content):
    rows = [(one["name"], sum(one["codes"].values()), ", ".join(f"{code}: {n}" for code, n in sorted(one["codes"].items(), key=lambda item: int(item[0]))))
            for one in content.get("bad_inputs", {}).get("sets", ())]
    return table(("inputs", "how many", "exit codes"), rows)


def _sanitizers(content):
    return table(("sanitizers", "tests", "failed", "which"), [(run["name"], run["tests"], run["failed"], run["which"]) for run in content.get("sanitizers", {}).get("runs", ())])

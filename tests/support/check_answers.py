"""Usage: check_answers.py SHARDWELD EXPECTED

Asks `shardweld check` what loaders would say to directories, in one call for all directories that are asked about for the same targets, and holds the
answers against EXPECTED, lines of: a verdict ("ok" also stands for not_known), a rule that has an error or a warning ("-": any or none), a directory and a
target. Prints what differs; exits 1 if anything does.
"""
import collections
import json
import subprocess
import sys


def answers_of(shardweld, directories, targets):
    """By directory and target."""
    words = [shardweld, "check", *directories, *(word for target in targets for word in ("--target", target)), "--json"]
    run = subprocess.run(words, stdout=subprocess.PIPE, check=False, text=True)
    told = json.loads(run.stdout)
    found = {(answer["directory"], answer["target"]): answer for answer in told.get("answers", [told])}
    worst = 14 if any(answer["verdict"] == "refused" for answer in found.values()) else 0
    return found, [] if run.returncode == worst else [f"exit code {run.returncode}, not {worst}: {' '.join(words)[:300]}"]


def main():
    shardweld, path = sys.argv[1:]
    expected, targets_of = {}, collections.defaultdict(list)
    for line in open(path, encoding="utf-8"):
        verdict, rule, directory, target = line.rstrip("\n").split("\t")
        expected[directory, target] = (verdict, rule)
        targets_of[directory].append(target)
    answers, faults = {}, []
    for targets in sorted(set(map(tuple, targets_of.values()))):
        found, fault = answers_of(shardweld, [one for one, own in targets_of.items() if tuple(own) == targets], targets)
        answers.update(found)
        faults += fault
    for (directory, target), (verdict, rule) in expected.items():
        answer = answers.get((directory, target), {"verdict": "none", "findings": []})
        fits = answer["verdict"] == verdict or (verdict == "ok" and answer["verdict"] == "not_known")
        if not fits or rule not in ("-", *(one["rule"] for one in answer["findings"])):
            faults.append(f"{directory} for {target} is not {verdict} by {rule}: {json.dumps(answer)[:700]}")
    print("".join(f"FAILED: {fault}\n" for fault in faults) + f"{len(expected)} answers, {len(faults)} failed")
    sys.exit(bool(faults) or not expected)


main()

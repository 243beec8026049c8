#!/usr/bin/env python3
"""security_tables.py DOCS: renders the tables of hostile-inputs.md from fuzzing.json and hostile.json, all in DOCS."""
import json
import os
import re
import sys


def read(docs, name):
    with open(os.path.join(docs, name), encoding="utf-8") as file:
        return json.load(file)


def fuzz_table(record):
    targets = record["targets"]
    lines = ["| target | executions | with AddressSanitizer | edges reached | inputs kept | peak MB |", "|---|--:|--:|--:|--:|--:|"]
    lines += [f"| {name} | {one['executions']:,} | {one['executions'] - one['fast_executions']:,} | {one['edges']:,} | {one['corpus_files']:,} | {one['peak_rss_mb']} |"
              for name, one in targets.items()]
    executions, seconds = (sum(one[key] for one in targets.values()) for key in ("executions", "seconds"))
    findings = "".join(f"- {name}: {finding}\n" for name, one in targets.items() for finding in one["findings"])
    return f"{executions:,} executions in {seconds:,} seconds of one core, {record['compiler']}:\n\n" + "\n".join(lines) + f"\n\nFound and fixed:\n\n{findings}"


def hostile_table(record):
    codes = ", ".join(f"{count:,} of code {code}" for code, count in record["codes"].items())
    outcomes = record["outcomes"]
    return (f"{record['variants']:,} variants of {len(record['cases'])} checkpoints, {record['problems']} that broke a rule, the slowest "
            f"{record['slowest_s']} s: {codes}. Of the successes {outcomes.get('same', 0):,} wrote the undamaged model, {outcomes.get('data', 0):,} differ in damaged "
            f"data only, {outcomes.get('other', 0):,} are other valid checkpoints.")


def main():
    docs = sys.argv[1]
    path = os.path.join(docs, "hostile-inputs.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for mark, table in (("fuzzing", fuzz_table(read(docs, "fuzzing.json"))), ("hostile", hostile_table(read(docs, "hostile.json")))):
        text = re.sub(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", lambda found, table=table: f"{found[1]}{table.strip()}\n{found[2]}", text,
                      flags=re.DOTALL)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()

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
    lines = ["| target | executions | with AddressSanitizer | seconds | edges reached | inputs kept | peak MB | found and fixed |",
             "|---|--:|--:|--:|--:|--:|--:|---|"]
    totals = [0, 0]
    for name, entry in record["targets"].items():
        totals[0] += entry["executions"]
        totals[1] += entry["seconds"]
        checked = entry["executions"] - entry["fast_executions"]
        lines.append(f"| {name} | {entry['executions']:,} | {checked:,} | {entry['seconds']} | {entry['edges']:,} | {entry['corpus_files']:,} | "
                     f"{entry['peak_rss_mb']} | {'; '.join(entry['findings']) or '–'} |")
    return f"{totals[0]:,} executions in {totals[1]:,} seconds of one core, {record['compiler']}:\n\n" + "\n".join(lines)


def hostile_table(record):
    lines = ["| exit code | variants |", "|--:|--:|"] + [f"| {code} | {count:,} |" for code, count in record["codes"].items()]
    outcomes = record["outcomes"]
    return (f"{record['variants']:,} variants of {len(record['cases'])} checkpoints, {record['problems']} that broke a rule, the slowest "
            f"{record['slowest_s']} s. Of the successes {outcomes.get('same', 0):,} wrote the undamaged model, {outcomes.get('data', 0):,} differ in damaged "
            f"data only, {outcomes.get('other', 0):,} are other valid checkpoints.\n\n" + "\n".join(lines))


def main():
    docs = sys.argv[1]
    path = os.path.join(docs, "hostile-inputs.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for mark, table in (("fuzzing", fuzz_table(read(docs, "fuzzing.json"))), ("hostile", hostile_table(read(docs, "hostile.json")))):
        text = re.sub(rf"(<!-- {mark} -->\n).*?(\n<!-- end -->)", lambda found, table=table: found.group(1) + table + found.group(2), text,
                      flags=re.DOTALL)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()

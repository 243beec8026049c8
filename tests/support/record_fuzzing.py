#!/usr/bin/env python3
"""record_fuzzing.py FILE TARGET [LOG [--fast]]: adds one run of a fuzz target, from libFuzzer's final statistics, to a JSON file;
--fast: it ran without AddressSanitizer. Without LOG prints the executions that the file has."""
import datetime
import fcntl
import json
import os
import re
import subprocess
import sys


def stat(log, name):
    return int(re.search(rf"^stat::{name}:\s*(\d+)", log, re.MULTILINE).group(1))


def main():
    path, target = sys.argv[1:3]
    # Two runs of the fuzzers may end at the same time.
    lock = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    record = {"targets": {}}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
    entry = record["targets"].setdefault(target, {"executions": 0, "fast_executions": 0, "seconds": 0, "findings": []})
    if len(sys.argv) == 3:
        print(entry["executions"])
        return
    with open(sys.argv[3], encoding="utf-8", errors="replace") as file:
        log = file.read()
    executions = stat(log, "number_of_executed_units")
    entry["executions"] += executions
    if "--fast" in sys.argv:
        entry["fast_executions"] += executions
    entry["seconds"] += int(re.findall(r"in (\d+) second\(s\)", log)[-1])
    # The last line of progress: what the corpus reaches and holds.
    progress = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)/(\S+)", log)[-1]
    entry["edges"], entry["features"], entry["corpus_files"] = (int(number) for number in progress[:3])
    entry["peak_rss_mb"] = max(entry.get("peak_rss_mb", 0), stat(log, "peak_rss_mb"))
    entry["date"] = datetime.date.today().isoformat()
    record["compiler"] = subprocess.run(["clang", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    record["sanitizers"] = "address, undefined"
    record["targets"] = dict(sorted(record["targets"].items()))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()

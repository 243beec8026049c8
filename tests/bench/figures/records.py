"""docs/measurements/performance.json: one record for each case, with all samples. Knows the schema; nothing of how samples are taken.

    {"schema": 1, "machines": {ID: {...}}, "records": {KEY: {...}}}

KEY is kind/input/dtype/ranks/strategy/cache/fsync of the record. A record of another run of the same case takes the place of the older one and leaves all
others alone. Fields are never renamed or removed; seconds, bytes and counts are named so. `samples` holds, for each side of a pair, lists of equal
length in the order of the pairs."""
import datetime
import hashlib
import json
import os
import platform
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(__file__), "../../support"))
from marked_page import text_of

SCHEMA = 1
KEY_FIELDS = ("kind", "input", "dtype", "ranks", "strategy", "cache", "fsync")


def key_of(record):
    return "/".join(str(record[field]) for field in KEY_FIELDS)


def load(path):
    if not os.path.exists(path):
        return {"schema": SCHEMA, "machines": {}, "records": {}}
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if content.get("schema") != SCHEMA:
        raise SystemExit(f"{path} has schema {content.get('schema')}, this program writes {SCHEMA}")
    return content


def put(path, record, machine):
    """Adds a record to the file, in place of the one of the same case."""
    content = load(path)
    identity = hashlib.sha256(json.dumps(machine, sort_keys=True).encode()).hexdigest()[:8]
    content["machines"][identity] = machine
    content["records"][key_of(record)] = dict(record, machine=identity, date=datetime.date.today().isoformat())
    used = {other["machine"] for other in content["records"].values()}
    content["machines"] = {name: value for name, value in content["machines"].items() if name in used}
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text_of(content))
    os.replace(path + ".part", path)


def machine_at(directory):
    """What the figures of a run depend on, apart from the program."""
    return {"cores": len(os.sched_getaffinity(0)), "cpu": _line("/proc/cpuinfo", "model name"), "file_system": _said("df", "--output=fstype", directory).split()[-1],
            "kernel": platform.release(), "memory_gib": round(int(_line("/proc/meminfo", "MemTotal").split()[0]) / 2**20),
            "mpi": _said("mpirun", "--version").splitlines()[0]}


def _line(path, name):
    with open(path, encoding="utf-8") as file:
        return next((line.partition(":")[2].strip() for line in file if line.startswith(name)), "unknown")


def _said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

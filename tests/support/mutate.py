#!/usr/bin/env python3
"""Damages copies of real checkpoints in hundreds of ways and merges each with the real program, with Python's standard library
only.

    mutate.py PROGRAM TESTS PLACE [--variants N] [--record FILE] [--only CASE[:NUMBER]]

Every variant follows from its case and number alone. A merge must end in time, within memory, by one of the documented exit codes
for bad input and with one message; after a failure nothing is left. After a success the model has the tensors of the undamaged
checkpoint; bytes differ only where stored tensor data was damaged, unless the damage made another valid checkpoint (a view of
other elements, a zip record moved), which only checksums could tell. --record writes what was tried as JSON.
"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import socket
import stat
import struct
import subprocess
import sys
import time

# Fixtures small enough to damage anywhere, one for each way of storing tensors; options of merge.
CASES = {
    "fsdp": ("torch/fsdp1_w2_fp32_llama", []),
    "fsdp_tp": ("torch/fsdp2_tp_2x2_bf16_qwen2", []),
    "fsdp_prezip": ("torch/fsdp2_w2_prezip", []),
    "lora": ("torch/lora_patterns_bias_w1", []),
    "dcp": ("torch/dcp_w2_bf16_qwen2", []),
    "dcp_safetensors": ("torch/dcp_hf_w2_bf16_qwen2", []),
    "hf_prezip": ("hf/qwen2-tied-bin-prezip", ["--backend", "hf"]),
    "hf_index": ("hf/qwen2-tied-bin-zip-2-files", ["--backend", "hf"]),
    "legacy": ("megatron/llama-tp4-legacy-bf16", []),
    "torch_dist": ("megatron/qwen2-tp2-pp2-torchdist-bf16", []),
    "zarr": ("megatron/qwen2-tied-tp2-zarr", []),
    "hdf5": ("hdf5/llama-2ranks", ["--backend", "hdf5"]),
}
CODES = (0, 2, 3, 4, 5, 6)
TIME_LIMIT_S = 60
CPU_LIMIT_S = 30
DATA_LIMIT = 512 << 20
FILE_LIMIT = 64 << 20
JSON_VALUES = ["null", "-1", "1e999", "18446744073709551616", "9223372036854775807", '"\\u0000"', '"../../../../etc/passwd"',
               '"/etc/passwd"', "{}", "[]", '"\\u001b[31m"', "[" * 5000, "[" * 5000 + "]" * 5000, '"' + "x" * 70000 + '"', "0.5"]


# Faults: each takes the generator and the path of one file and changes it. True: only bytes were exchanged.

def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def position(rng, size):
    """Anywhere, or near an end, where most formats keep what describes the rest."""
    near = min(size, 4096)
    return rng.choice((rng.randrange(size), rng.randrange(near), size - 1 - rng.randrange(near)))


def flip_bits(rng, path):
    data = bytearray(read(path))
    for _ in range(rng.randint(1, 3)):
        data[position(rng, len(data))] ^= 1 << rng.randrange(8)
    write(path, data)
    return True


def overwrite(rng, path):
    data = bytearray(read(path))
    at, length = position(rng, len(data)), rng.randint(1, 64)
    part = data[at:at + length]
    data[at:at + length] = rng.choice((bytes(len(part)), b"\xff" * len(part), rng.randbytes(len(part))))
    write(path, data)
    return True


def huge_number(rng, path):
    data = bytearray(read(path))
    at = position(rng, len(data))
    value = rng.choice((b"\xff\xff\xff\x7f", b"\xff" * 7 + b"\x7f", b"\x00" * 4 + b"\x01" + b"\x00" * 3, b"\xfe\xff\xff\xff"))
    data[at:at + len(value)] = value[:len(data) - at]
    write(path, data)
    return True


def cut(rng, path):
    data = read(path)
    write(path, data[:position(rng, len(data))])


def remove_part(rng, path):
    data = read(path)
    at = position(rng, len(data))
    write(path, data[:at] + data[at + rng.randint(1, 300):])


def repeat_part(rng, path):
    data = read(path)
    at = position(rng, len(data))
    write(path, data[:at] + data[at:at + rng.randint(1, 3000)] + data[at:])


def append(rng, path):
    write(path, read(path) + rng.randbytes(rng.randint(1, 5000)))


def exchange_parts(rng, path):
    data = bytearray(read(path))
    size = rng.randint(1, 64)
    a, b = position(rng, len(data)), position(rng, len(data))
    a, b = min(a, len(data) - size), min(b, len(data) - size)
    if size <= len(data):
        data[a:a + size], data[b:b + size] = data[b:b + size], data[a:a + size]
    write(path, data)
    return True


def empty(rng, path):
    write(path, b"")


def remove(rng, path):
    os.remove(path)


def directory(rng, path):
    os.remove(path)
    os.mkdir(path)


def fifo(rng, path):
    os.remove(path)
    os.mkfifo(path)


def unix_socket(rng, path):
    os.remove(path)
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as server:
        # Names of sockets are short.
        os.chdir(os.path.dirname(path))
        try:
            server.bind(os.path.basename(path))
        finally:
            os.chdir(here)


def link(rng, path):
    os.remove(path)
    os.symlink(rng.choice((os.path.basename(path), "/dev/zero", "/nowhere", "/proc/self/mem", "/dev/tty", "..")), path)


def other_file(rng, path):
    files = [name for name in files_below(os.path.dirname(path)) if name != path]
    if files:
        shutil.copyfile(rng.choice(files), path)


def json_value(rng, path):
    text = read(path).decode(errors="replace")
    values = list(re.finditer(r'-?\d+(\.\d+)?([eE][-+]?\d+)?|"[^"]*"(?!\s*:)|true|false|null', text))
    if values:
        value = rng.choice(values)
        text = text[:value.start()] + rng.choice(JSON_VALUES) + text[value.end():]
    write(path, text.encode())


FAULTS = [flip_bits] * 6 + [overwrite] * 5 + [huge_number] * 3 + [cut] * 2 + [remove_part, repeat_part] * 2 + [
    append, exchange_parts, empty, remove, directory, fifo, unix_socket, link, other_file]


# One variant.

def files_below(top):
    """Regular files, sorted: the generator's choices depend on nothing else."""
    found = []
    for place, _, names in sorted(os.walk(top)):
        found += [os.path.join(place, name) for name in sorted(names)]
    return [path for path in found if stat.S_ISREG(os.lstat(path).st_mode)]


def is_metadata(path):
    name = os.path.basename(path)
    return name.endswith(".json") or name in (".metadata", ".zarray") or name.endswith(".txt")


def damage(rng, top):
    """Damages one file below `top`; returns what was done, to which file, and how many bytes of it now differ."""
    files = files_below(top)
    texts = [path for path in files if is_metadata(path)]
    path = rng.choice(texts if texts and rng.random() < 0.35 else files)
    before = read(path)
    fault = json_value if path.endswith(".json") and rng.random() < 0.5 else rng.choice(FAULTS)
    in_place = fault(rng, path)
    n_changed = sum(a != b for a, b in zip(before, read(path))) if in_place else None
    return fault.__name__, os.path.relpath(path, top), n_changed


def merge(program, copy, target, options):
    source = os.path.join(copy, "source") if os.path.isdir(os.path.join(copy, "source")) else copy
    limits = [f"--data={DATA_LIMIT}", f"--fsize={FILE_LIMIT}", f"--cpu={CPU_LIMIT_S}", "--core=0"]
    command = ["prlimit", *limits, program, "merge", "--local_dir", source, "--target_dir", target, "-q",
               "--check_crc", "off", *options]  # what is wrong is to be found by what it is, not by its checksum
    if os.path.isdir(os.path.join(copy, "hf")):
        command += ["--hf_config", os.path.join(copy, "hf")]
    begin = time.monotonic()
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIME_LIMIT_S,
                              check=False)
        code, error = done.returncode, done.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        code, error = "no end", ""
    return code, error, time.monotonic() - begin


def model_of(directory):
    """{tensor: (dtype, shape, bytes)} of all safetensors files below; whatever is odd in them is an error."""
    tensors = {}
    for path in files_below(directory):
        if not path.endswith(".safetensors"):
            continue
        data = read(path)
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        header.pop("__metadata__", None)
        end = 0
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, stop = entry["data_offsets"]
            if begin != end:
                raise ValueError(f"{path}: a hole before {name}")
            end = stop
            tensors[os.path.basename(path) + ":" + name] = (entry["dtype"], entry["shape"], data[8 + length + begin:8 + length + stop])
        if 8 + length + end != len(data):
            raise ValueError(f"{path}: {len(data)} bytes, the header says {8 + length + end}")
    return tensors


def difference(got, expected, n_changed):
    """"" for the same model, "data" when no more bytes differ than were changed, "other" for another model of the same kind."""
    if got == expected:
        return ""
    # The head of a tied model that is no copy of the embedding any more is written too.
    heads = [name for name in got if name not in expected and name.endswith(":lm_head.weight")]
    for head in heads:
        expected = {**expected, head: expected[head.replace("lm_head", "model.embed_tokens")]}
    kinds = [{name: entry[:2] for name, entry in model.items()} for model in (got, expected)]
    if kinds[0] != kinds[1]:
        raise ValueError("other names, dtypes or shapes than the undamaged checkpoint has")
    n_different = sum(sum(a != b for a, b in zip(got[name][2], expected[name][2])) for name in got)
    return "data" if n_changed is not None and n_different <= n_changed else "other"


class Runner:
    def __init__(self, program, tests, place):
        self.program, self.tests, self.place = program, tests, place
        self.expected = {}

    def copy(self, case, name):
        copy = os.path.join(self.place, f"{case}_{name}")
        shutil.copytree(os.path.join(self.tests, "data", CASES[case][0]), copy)
        if os.path.isdir(os.path.join(copy, "expected")):
            shutil.rmtree(os.path.join(copy, "expected"))
        return copy

    @staticmethod
    def target_beside(copy):
        os.mkdir(copy + "_out")
        return os.path.join(copy + "_out", "model")

    def baseline(self, case):
        """Whether the undamaged checkpoint can be merged by this build; its model is what variants are held against."""
        copy = self.copy(case, "whole")
        target = self.target_beside(copy)
        code, error, _ = merge(self.program, copy, target, CASES[case][1])
        if case == "hdf5" and code == 5:
            return False
        if code != 0:
            raise SystemExit(f"{case}: the undamaged checkpoint is refused, code {code}: {error}")
        self.expected[case] = model_of(target)
        return True

    def variant(self, case, number):
        """What was done and came of it; problems as text."""
        rng = random.Random(f"{case} {number}")
        copy = self.copy(case, str(number))
        kind, file, n_changed = damage(rng, os.path.join(copy, "source") if os.path.isdir(os.path.join(copy, "source")) else copy)
        target = self.target_beside(copy)
        code, error, seconds = merge(self.program, copy, target, CASES[case][1])
        problems, outcome = [], "refused"
        if code not in CODES:
            problems.append(f"exit code {code}")
        if len(re.findall('^error:', error, re.M)) != (0 if code == 0 else 1):
            problems.append(f"{len(re.findall('^error:', error, re.M))} messages")
        if code != 0 and os.listdir(os.path.dirname(target)):
            problems.append("something is left: " + ", ".join(os.listdir(os.path.dirname(target))))
        if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", error):
            problems.append("the message holds control characters")
        if code == 0:
            try:
                outcome = {"": "same", "data": "data", "other": "other"}[difference(model_of(target), self.expected[case], n_changed)]
            except (ValueError, KeyError, struct.error, OSError) as fault:
                problems.append(f"exit code 0, but {fault}")
        # A directory, FIFO or link in the copy is no obstacle to removing it.
        shutil.rmtree(copy)
        shutil.rmtree(os.path.dirname(target))
        return {"case": case, "number": number, "fault": kind, "file": file, "code": code, "outcome": outcome,
                "seconds": round(seconds, 2), "problems": problems, "error": error.strip()}


def count(values):
    totals = {}
    for value in values:
        totals[str(value)] = totals.get(str(value), 0) + 1
    return dict(sorted(totals.items()))


def main():
    parser = argparse.ArgumentParser()
    for name in ("program", "tests", "place"):
        parser.add_argument(name)
    parser.add_argument("--variants", type=int, default=300)
    parser.add_argument("--record")
    parser.add_argument("--only")
    arguments = parser.parse_args()
    runner = Runner(arguments.program, arguments.tests, arguments.place)
    only, _, number = (arguments.only or "").partition(":")
    cases = [case for case in CASES if (not only or case == only) and runner.baseline(case)]
    wanted = [(cases[i % len(cases)], i // len(cases)) for i in range(arguments.variants)]
    if number:
        wanted = [(only, int(number))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda one: runner.variant(*one), wanted))
    bad = [result for result in results if result["problems"]]
    for result in bad if not number else results:
        print(f"{result['case']}:{result['number']} {result['fault']} in {result['file']}: code {result['code']}, "
              f"{result['outcome']}; {'; '.join(result['problems'])}\n    {result['error'][:400]}")
    record = {"variants": len(results), "cases": cases, "codes": count(result["code"] for result in results),
              "faults": count(result["fault"] for result in results), "outcomes": count(result["outcome"] for result in results),
              "slowest_s": max(result["seconds"] for result in results), "problems": len(bad)}
    if arguments.record:
        with open(arguments.record, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
    print(json.dumps(record))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

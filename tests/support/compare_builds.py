#!/usr/bin/env python3
"""Two builds of the program on every fixture: what a redesign must not change.

    compare_builds.py OLD NEW [--only REGEX] [--all-ways]

Both run the same commands: inspect and plan, merges without mpirun and with 1, 2, 3 and 5 ranks in both ways, every encoding, averages, merges of
damaged input. Exit codes, files, reports (but for times, memory and versions) and messages must be equal; each difference is printed
with its command. Exits 1 if there is one. Each fixture takes one number of ranks and one encoding in turn; --all-ways takes all of them."""
import argparse
import concurrent.futures
import difflib
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
WAYS = [(ranks, way) for ranks in (1, 2, 3, 5) for way in ("collective", "direct")]
ENCODINGS = ("fp8-block fp8-block-ue8m0 fp8-channel fp8-block-ct w8a16 w8a16-g64 w8a16-g32 w8a16-channel w4a16 w4a16-g64 w4a16-g32 "
             "w4a16-channel nvfp4a16 mxfp4 gptoss-mxfp4 gguf:q8_0 gguf:q5_1 gguf:q5_0 gguf:q4_1 gguf:q4_0 gguf:f16 gguf:bf16 gguf:f32").split()
VARIES = {"wall_s", "cpu_s", "peak_bytes", "base_bytes", "metadata_bytes", "plan_bytes", "buffer_bytes", "git", "version", "hosts", "host", "stall_s",
          "seconds", "memory", "bytes_per_second", "time", "rate", "cost", "quotas", "started", "finished"}
TEXT = ((r"\d+(\.\d+)? (s|min|ms)\b", "TIME"), (r"\d+(\.\d+)? [kMGT]?B/s", "RATE"), (r"(peak|memory|buffers)[^,\n]*\d+(\.\d+)? [kMG]i?B", "MEMORY"),
        (r"PID \d+|process \d+|pid \d+|\[\[\d+,\d+\],\d+\]", "PID"), (r"\d\d:\d\d:\d\d", "CLOCK"))


def same_form(value):
    """The report without what differs between two runs of one build."""
    if isinstance(value, dict):
        return {key: same_form(one) for key, one in value.items() if key not in VARIES}
    return [same_form(one) for one in value] if isinstance(value, list) else value


def content_of(path):
    data = path.read_bytes()
    if path.suffix == ".json" and b'"schema"' in data[:200] and b'"tool"' in data[:400]:
        return json.dumps(same_form(json.loads(data)), indent=1)
    return hashlib.sha256(data).hexdigest()


def run(place, build, command):
    """What a build makes of a command in an empty folder: lines of its exit code, messages and files."""
    shutil.rmtree(place / "out", ignore_errors=True)
    (place / "out").mkdir()
    link = place / "program"
    link.unlink(missing_ok=True)
    link.symlink_to(build)
    done = subprocess.run(command, cwd=place / "out", capture_output=True, timeout=300, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"})
    lines = [f"exit code {done.returncode}"]
    for stream in (done.stdout, done.stderr):
        text = stream.decode(errors="replace")
        if text.startswith("{") and text.rstrip().endswith("}"):
            text = json.dumps(same_form(json.loads(text)), indent=1)
        for pattern, name in TEXT:
            text = re.sub(pattern, name, text)
        text = text.splitlines()
        lines += sorted(text) if command[0] == "mpirun" else text
    for path in sorted((place / "out").rglob("*")):
        lines += [f"{path.relative_to(place)} {content_of(path)}"] if path.is_file() else []
    return "\n".join(lines).splitlines()


def merges_of(number, all_ways):
    yield [], ["--report", "report.json"]
    for ranks, way in WAYS if all_ways else (WAYS[number % len(WAYS)],):
        yield ["mpirun", "-n", str(ranks)], ["--strategy", way, "--report", "report.json", "--message_limit", "4096"]
    for encoding in ENCODINGS if all_ways else (ENCODINGS[number % len(ENCODINGS)],):
        yield [], ["--quantize", encoding, "--report", "report.json", "--also", "also:fp32"]


def damaged(source, place, number):
    """Copies with a file left out, cut off, and with a byte changed."""
    for kind in ("missing", "short", "changed"):
        copy = place / kind
        if not copy.exists():
            shutil.copytree(source, copy)
            files = sorted(one for one in copy.rglob("*") if one.is_file())
            hit = files[number % len(files)]
            data = bytearray(hit.read_bytes())
            hit.unlink()
            if kind == "changed" and data:
                data[len(data) // 3] ^= 0x5A
            if kind != "missing":
                hit.write_bytes(data[: len(data) // 2] if kind == "short" else data)
        yield copy


def commands_of(case, place, number, all_ways):
    source, program = case / "source", str(place / "program" / "shardweld")
    config = [] if any(source.rglob("huggingface")) else ["--hf_config", str(case / "hf")]
    yield [program, "inspect", "--json", str(source)]
    yield [program, "inspect", str(source)]
    yield [program, "plan", "--json", "--local_dir", str(source), *config]
    target = ["--target_dir", "model", "--no_fsync"]
    for launcher, options in merges_of(number, all_ways):
        yield [*launcher, program, "merge", "--local_dir", str(source), *config, *target, *options]
    yield [program, "merge", "--average", str(source), str(source), *target, "--average_weights", "0.3,0.7", *config]
    yield [program, "merge", "--local_dir", str(source), *target, "--names", "module"]
    if (case / "expected").is_dir():
        yield [program, "test", "--local_dir", str(source), *config, "--test_hf_dir", str(case / "expected")]
    for copy in damaged(source, place, number):
        yield [program, "merge", "--local_dir", str(copy), *config, *target]


def differences(number, case, arguments):
    found = []
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        for command in commands_of(case, place, number, arguments.all_ways):
            old, new = (run(place, build, command) for build in (arguments.old, arguments.new))
            if old != new:
                found.append("\n".join([f"{case.relative_to(DATA)}: {' '.join(command)}",
                                        *list(difflib.unified_diff(old, new, "old", "new", lineterm="", n=0))[2:40]]))
            arguments.runs.append(new[0])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path, help="the folder of the old program")
    parser.add_argument("new", type=pathlib.Path, help="the folder of the new one")
    parser.add_argument("--only", default=".", help="fixtures whose path matches")
    parser.add_argument("--all-ways", action="store_true", help="each fixture in every way")
    arguments = parser.parse_args()
    arguments.old, arguments.new, arguments.runs = arguments.old.resolve(), arguments.new.resolve(), []
    cases = sorted(one.parent for one in DATA.rglob("source") if one.is_dir() and re.search(arguments.only, str(one.relative_to(DATA))))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda one: differences(*one, arguments), enumerate(cases)))
    for text in (text for found in results for text in found):
        print(text)
    succeeded = arguments.runs.count("exit code 0")
    print(f"{len(cases)} fixtures, {len(arguments.runs)} commands ({succeeded} with exit code 0), {sum(map(len, results))} differ", file=sys.stderr)
    sys.exit(any(results) or not succeeded)


if __name__ == "__main__":
    main()

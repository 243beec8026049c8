#!/usr/bin/env python3
"""links_pipes.py PROGRAM DATA WORK: a FIFO in the place of each file that commands read or write, one after the other. Each command ends at once, with a
documented code, and what it then refuses it names."""
import os
import pathlib
import shutil
import subprocess
import sys

program, data, work = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
CODES = {0, 2, 3, 4, 5, 6, 7, 12, 13, 14, 16}
faults, tried = [], 0


def run(*words):
    """The code of a command that no FIFO may keep waiting; a hang is 124."""
    try:
        return subprocess.run([program, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, timeout=20).returncode
    except subprocess.TimeoutExpired:
        return 124


def remove(path):
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def each_file(tree, what, command, codes=CODES, made=()):
    """The command with a FIFO in the place of each file below the tree; it ends as it should, and `made` is removed behind it."""
    global tried
    for file in sorted(path for path in tree.rglob("*") if path.is_file()):
        aside = work / "aside"
        file.rename(aside)
        os.mkfifo(file)
        code = run(*command)
        tried += 1
        if code not in codes:
            faults.append(f"{what}: code {code} where {file.relative_to(tree)} is a FIFO")
        for path in made:
            remove(path)
        remove(file)
        aside.rename(file)


def in_place(path, what, command, codes, made=()):
    """The command with a FIFO in the place of one file, which it would write."""
    global tried
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    code = run(*command)
    tried += 1
    if code not in codes:
        faults.append(f"{what}: code {code}")
    for one in (path, *made):
        remove(one)


def copied(case):
    tree = work / pathlib.Path(case).name
    shutil.copytree(data / case, tree)
    return tree


out = work / "out"
for case in ("torch/fsdp2_lora_w2_fp32_qwen2", "torch/dcp_w2_bf16_qwen2", "megatron/qwen2-tp2-pp2-torchdist-bf16", "megatron/llama-tp4-legacy-bf16",
             "deepspeed/universal_tp2", "deepspeed/zero2_w2_tied", "colossalai/tp2_w2_fp32"):
    tree = copied(case)
    for name in ("expected", "expected_lora", "case.json"):
        remove(tree / name)
    if case.endswith("universal_tp2"):
        shutil.copytree(data / "deepspeed/autotp_zero1_tp2dp2/hf", tree / "hf")
    options = ["--hf_config", tree / "hf"] if (tree / "hf").is_dir() else []
    each_file(tree, f"merge {case}", ["merge", tree / "source", out, *options, "-q", "--no_fsync"], made=[out])

# A model, and what stands beside it.
tree = work / "dcp_w2_bf16_qwen2"
options = [] if not (tree / "hf").is_dir() else ["--hf_config", tree / "hf"]
merge = ["merge", tree / "source", out, *options, "-q", "--no_fsync"]
model = work / "model"
assert run("merge", tree / "source", model, *options, "-q", "--no_fsync", "--max_shard_size", "200KB") == 0
each_file(model, "verify", ["verify", model, "-q"])
each_file(model, "check", ["check", model, "--target", "vllm", "-q"])
each_file(model, "report", ["report", model / "shardweld_report.json"])
each_file(model, "--if_complete", ["merge", tree / "source", model, *options, "-q", "--no_fsync", "--if_complete", "skip"])
each_file(model, "--hf_config", ["merge", tree / "source", out, "--hf_config", model, "-q", "--no_fsync"], made=[out])
each_file(tree / "source", "--like", ["reshape", model, out, "--like", tree / "source", "-q", "--no_fsync"], made=[out])

logs = work / "logs"
for place, what, more, codes in (
        (out, "OUT", [], {12}),
        (work / ".out.shardweld-partial", "what a run has left", [], {0, 12}),
        (work / ".out.shardweld-lock", "the lock", [], {0, 12}),
        (work / "report.json", "--report", ["--report", work / "report.json"], {2, 7, 12}),
        (logs / "rank-0000.log", "--log_dir", ["--log_dir", logs], {12}),
        (work / "my.recipe", "--recipe", ["--recipe", work / "my.recipe"], {2, 5}),
        (work / "config.json", "--hf_config", ["--hf_config", work / "config.json"], {2, 3, 5})):
    in_place(place, what, [word for word in merge if what != "--hf_config" or word not in options] + more, codes, made=[out])

# watch: its own files, and links where outputs would be.
steps, watched = work / "run", work / "watched"
(steps / "step-1").parent.mkdir()
shutil.copytree(tree / "source", steps / "step-1")
watch = ["watch", steps, watched, *options, "-q", "--no_fsync", "--interval", "0.1", "--idle_exit", "0"]
in_place(watched / "watch.jsonl", "watch.jsonl", watch, {7})
in_place(work / "counts", "--metrics", [*watch, "--metrics", work / "counts"], {0}, made=[watched])
watched.mkdir()
(watched / "watch.jsonl").symlink_to(work / "elsewhere")
if run(*watch) != 7 or (work / "elsewhere").exists():
    faults.append("watch.jsonl: a link is followed")
(watched / "watch.jsonl").unlink()
(watched / "step-1").symlink_to(work / "elsewhere")
if run(*watch) != 16 or (work / "elsewhere").exists():
    faults.append("watch: a link leads a step elsewhere")
remove(watched)
(steps / "step-1").rename(steps / "$(touch hit)-step=1")
if run(*watch) != 16 or any(watched.glob("*step*")):
    faults.append("watch: a step may have any name")

for fault in faults:
    print(fault)
print(f"{tried} files")
sys.exit(bool(faults) or tried < 100)

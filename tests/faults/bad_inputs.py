"""Damaged and hostile checkpoints: the real program must refuse them with a documented code, or merge them; never crash, hang, or take memory without
bound. Knows directories and codes; nothing of formats."""
import os
import random
import re
import resource
import shutil
import subprocess
from collections import Counter

import program
from program import Failed

_MEMORY = 1 << 30   # bytes of data of one process: far above what these small inputs justify
_SECONDS = 20
_REFUSALS = {2, 3, 4, 5, 6, 7}
_LONGEST = 1 << 20  # larger files are left as they are: mutations would meet tensor bytes only


def try_cases(runner, directory):
    """Every CASE/source below a directory, as it is: Counter of exit codes."""
    codes = Counter()
    for name in sorted(os.listdir(directory)):
        source = os.path.join(directory, name, "source")
        if os.path.isdir(source):
            config = os.path.join(directory, name, "hf")
            codes[_merge(runner, source, config if os.path.isdir(config) else None, name)] += 1
    return codes


def try_mutations(runner, fixtures, n, seed=1):
    """Copies of good checkpoints (directories with `source`), `n` of each with some bytes of one file changed: Counter of exit codes."""
    codes, choose = Counter(), random.Random(seed)
    for fixture in fixtures:
        copy = os.path.join(runner.work, "mutated")
        for i in range(n):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(fixture, copy)
            changed = _mutate(copy, choose)
            config = os.path.join(copy, "hf")
            codes[_merge(runner, os.path.join(copy, "source"), config if os.path.isdir(config) else None, f"{fixture}, mutation {i} of {changed}")] += 1
    return codes


def _mutate(copy, choose):
    files = sorted(os.path.join(root, name) for root, _, names in os.walk(copy) for name in names)
    files = [path for path in files if 0 < os.path.getsize(path) <= _LONGEST] or files
    path = choose.choice(files)
    with open(path, "rb") as file:
        content = bytearray(file.read())
    kind = choose.choice(("bytes", "bytes", "ends", "cut", "double", "empty"))
    if kind == "bytes":
        for _ in range(choose.randint(1, 8)):
            content[choose.randrange(len(content))] = choose.randrange(256)
    elif kind == "ends":  # where zip directories, headers and the first opcodes are
        for _ in range(choose.randint(1, 4)):
            at = choose.randrange(min(512, len(content)))
            content[at if choose.random() < 0.5 else -1 - at] = choose.randrange(256)
    elif kind == "cut":
        del content[choose.randrange(len(content)):]
    elif kind == "double":
        at = choose.randrange(len(content))
        content[at:at] = content[at:at + choose.randint(1, 64)]
    else:
        content.clear()
    with open(path, "wb") as file:
        file.write(content)
    return os.path.relpath(path, copy)


def _merge(runner, source, config, name):
    out = os.path.join(runner.work, "bad")
    shutil.rmtree(out, ignore_errors=True)
    command = [runner.shardweld, "merge", "-q", "--local_dir", source, "--target_dir", os.path.join(out, "model"), *(["--hf_config", config] if config else [])]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY)))
    except subprocess.TimeoutExpired:
        raise Failed(f"{name}: did not end in {_SECONDS} s") from None
    said = ended.stderr.decode(errors="replace")
    if ended.returncode != 0 and ended.returncode not in _REFUSALS:
        raise Failed(f"{name}: code {ended.returncode}: {said[-600:]}")
    if ended.returncode != 0 and len(re.findall("^error: ", said, re.M)) != 1:
        raise Failed(f"{name}: not one message: {said[-600:]}")
    if ended.returncode != 0 and program.content_of(out):
        raise Failed(f"{name}: refused, but something was left in the target's directory")
    return ended.returncode

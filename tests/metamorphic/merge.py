"""Runs `shardweld merge` on a changed copy and tells what came of it. Knows the program and its output; nothing of changes or of what may be."""
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass

TIME_LIMIT_S = 60
REFUSALS = (2, 3, 4, 5, 6, 7, 14)


@dataclass(frozen=True)
class Model:
    """What is compared: tensors by name as (dtype, shape, digest), the bytes of all other files."""
    tensors: dict
    others: dict


@dataclass(frozen=True)
class Merge:
    code: int           # None: it did not end
    stderr: str
    left: tuple         # names beside and at the target
    model: Model = None
    struck: bool = False    # whether a fault happened
    inputs: tuple = ()      # what stood in the given files behind the merge


def environment(faulty=None):
    made = {name: value for name, value in os.environ.items() if not name.startswith(("SHARDWELD_FAULT", "LD_PRELOAD"))}
    # A process alone needs none of what joins it to others.
    made.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_hwloc_base_binding_policy="none",
                OMPI_MCA_btl="self", OMPI_MCA_pml="ob1", OMPI_MCA_orte_tmpdir_base="/dev/shm", **(faulty or {}))
    return made


def faults(library, text, place, out):
    """Environment in which `text` (tests/faults/inject/fault.hpp) describes faults of input files."""
    return {"LD_PRELOAD": library, "SHARDWELD_FAULTS": text, "SHARDWELD_FAULT_COUNTS": out + ".counts", "SHARDWELD_FAULT_INPUT": place,
            "SHARDWELD_FAULT_OUTPUT": out, "SHARDWELD_FAULT_REPORT": out + ".report"}


def run(program, arguments, out, faulty=None, options=(), inputs=()):
    """One merge into `out`/model, which is removed afterwards."""
    os.makedirs(out)
    os.makedirs(out + ".counts")
    command = [program, "merge", "-q", "--no_fsync", *arguments, "--target_dir", os.path.join(out, "model"), *options]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=TIME_LIMIT_S, check=False,
                              env=environment(faulty))
        code, stderr = done.returncode, done.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        code, stderr = None, ""
    try:
        model = model_of(os.path.join(out, "model")) if code == 0 else None
        return Merge(code, stderr, tuple(sorted(os.listdir(out))), model, _has_struck(out + ".counts"), tuple(_content(path) for path in inputs if faulty))
    finally:
        shutil.rmtree(out)
        shutil.rmtree(out + ".counts")


def _has_struck(directory):
    return any(name.startswith("struck.") and os.path.getsize(os.path.join(directory, name)) for name in os.listdir(directory))


def _content(path):
    """Of a plain file that is still there; what a link leads to is none of the model's business."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def model_of(directory):
    """Of a directory with safetensors files at any depth: tensors have the names of their files' directories in front."""
    tensors, others = {}, {}
    for root, _, names in os.walk(directory):
        for name in sorted(set(names) - {"shardweld_report.json"}):  # it has the run's times
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                data = file.read()
            if name.endswith(".safetensors"):
                place = os.path.relpath(root, directory)
                tensors.update({f"{place}/{tensor}": value for tensor, value in _tensors(data).items()})
            else:
                others[os.path.relpath(path, directory)] = data
    return Model(tensors, others)


def tensors_of(directory):
    """{name: (dtype, shape, digest)} of the safetensors files, or the digests (tests/support/digest_safetensors.py), of a directory."""
    digests = os.path.join(directory, "expected.json")
    if os.path.exists(digests):
        with open(digests, encoding="utf-8") as file:
            return {name: (entry["dtype"], tuple(entry["shape"]), entry["sha256"]) for name, entry in json.load(file).items()}
    tensors = {}
    for name in os.listdir(directory):
        if name.endswith(".safetensors"):
            with open(os.path.join(directory, name), "rb") as file:
                tensors.update(_tensors(file.read()))
    return tensors


def _tensors(data):
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length:]
    return {name: (entry["dtype"], tuple(entry["shape"]), hashlib.sha256(body[slice(*entry["data_offsets"])]).hexdigest())
            for name, entry in header.items()}


def problems(merge):
    """What no merge may do, whatever its input: an undocumented code, none or several messages, something left, control characters."""
    found = []
    if merge.code not in (0, *REFUSALS):
        found.append(f"exit code {merge.code}")
    n_messages = len(re.findall(r"^error: ", merge.stderr, re.M))
    if merge.code != 0 and n_messages != 1:
        found.append(f"{n_messages} messages")
    # What the next merge continues from may stay.
    if merge.code != 0 and any(not name.startswith(".model.shardweld-") or "same command continues" not in merge.stderr for name in merge.left):
        found.append("left " + ", ".join(merge.left))
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", merge.stderr):
        found.append("control characters in the message")
    return found


def difference(got, expected):
    """What differs, in words: ("", "") for the same model; kinds are tensors, config, files."""
    missing, more = sorted(set(expected.tensors) - set(got.tensors)), sorted(set(got.tensors) - set(expected.tensors))
    other = sorted(name for name in set(got.tensors) & set(expected.tensors) if got.tensors[name] != expected.tensors[name])
    if missing or more or other:
        return "tensors", f"{len(other)} of {len(expected.tensors)} tensors differ, {len(missing)} missing, {len(more)} more: {(other + missing + more)[:3]}"
    detail = _config_difference(got.others.get("config.json"), expected.others.get("config.json"))
    if detail:
        return "config", detail
    names = sorted(name for name in (set(got.others) | set(expected.others)) - {"config.json"} if got.others.get(name) != expected.others.get(name))
    return ("files", ", ".join(names)) if names else ("", "")


def _config_difference(got, expected):
    """"" where both say the same, in whichever order."""
    if got == expected:
        return ""
    try:
        got, expected = json.loads(got), json.loads(expected)
    except (TypeError, ValueError) as fault:
        return str(fault)
    got, expected = dict(_leaves(got)), dict(_leaves(expected))
    keys = sorted(key for key in set(got) | set(expected) if got.get(key, ...) != expected.get(key, ...))
    return "; ".join(f"{key}: {json.dumps(expected.get(key))} -> {json.dumps(got.get(key))}" for key in keys)


def _leaves(value, path=""):
    """(dotted path, value) of all plain values, lists of them as they are."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _leaves(one, f"{path}.{key}" if path else key)
    else:
        yield path, value

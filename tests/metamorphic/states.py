"""Optimizer states of which one claim was changed, read by reshape. Called by scripts/metamorphic.sh states and ctest; --help says more."""
import argparse
import copy
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable

import merge

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import damage  # noqa: E402

REFUSALS = (3, 4, 5, 6)
# A reader's saves in tests/data, and those that the program writes of the first ones.
SAVES = {"fsdp": "optimizer/fsdp2_w3", "dcp": "optimizer/dcp_w2", "zero2": "optimizer/zero2_w2", "zero3": "optimizer/zero3_w2",
         "dp_reshardable": "megatron_states/qwen3moe-tp2-ep2-dp", "legacy": "megatron_states/qwen3moe-tp2-ep2-legacy",
         "numbered": "megatron_states/qwen2-tied-tp2-pp2-numbered-legacy", "fully_reshardable": "loaded_states/llama-tp2-pp2-dp2"}
WRITTEN = {"universal": "zero2", "hf": "zero2", "torch_dist": "zero2", "torch_dist:era=019": "zero2", "hf of Megatron": "legacy"}
ABOUT = """Changes, drops, exchanges or retypes one step, number, setting or group of an optimizer in saves of every form, and has reshape carry the states over.
It must be refused with a documented code and one message, or give the states, step and groups of the unchanged save, or state what the changed save
states everywhere, or warn. Anything else is printed as
    FAILED save | change | exit code | what differs
and exit code 1."""


@dataclass(frozen=True)
class Slot:
    """A place that holds a claim: `edit(directory, fn)` calls fn(container, key) and writes what it has changed."""
    kind: str       # step, setting, groups, numbers, states, moment
    name: str       # of a setting
    group: int      # of a setting
    where: str
    edit: Callable


@dataclass(frozen=True)
class Change:
    what: str
    make: Callable          # takes a staged copy's directory
    wanted: Callable = None # makes of the unchanged optimizer.json that of the changed save, where it is a save of its own


# Slots of files.

def load(path):
    return damage.Reader(io.BytesIO(damage.pickle_of(path))).load()


def store(path, value):
    out = io.BytesIO()
    damage.Writer(out, damage.pickle_of(path)[1]).dump(value)
    damage.put_pickle(path, out.getvalue())


def walk(value, path=()):
    """(path, value) of everything in dictionaries and lists."""
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    if len(path) < 6:
        for key, one in items:
            yield from walk(one, (*path, key))


def descend(root, path):
    for key in path:
        root = root[key]
    return root


SETTINGS = ("lr", "betas", "eps", "weight_decay", "wd_mult", "is_expert_parallel")


def kind_of(path, value):
    if path and path[-1] in ("step", "common_step"):
        return "step"
    if path and path[-1] in ("param_groups", "groups") and isinstance(value, list):
        return "groups"
    if len(path) > 2 and path[-1] in ("params",) and isinstance(value, list):
        return "numbers"
    if path and path[-1] in SETTINGS and len(path) > 2 and isinstance(path[-2], int):
        return "setting"
    if path and path[-1] in ("exp_avg", "exp_avg_sq"):
        return "moment"
    if path and path[-1] == "state" and isinstance(value, dict) and value and all(isinstance(key, int) for key in value):
        return "states"
    return ""


def slots_of(name, root, edit):
    # Of many alike the first and the last.
    found = {}
    for path, value in walk(root):
        kind = kind_of(path, value)
        if kind:
            group = next((key for key in reversed(path[:-1]) if isinstance(key, int)), 0)
            slot = Slot(kind, str(path[-1]), group, f"{name} {'.'.join(map(str, path))}", lambda place, fn, path=path: edit(place, path, fn))
            found.setdefault((kind, slot.name, len(path), path[:1]), []).append(slot)
    return [slot for slots in found.values() for slot in {slots[0].where: slots[0], slots[-1].where: slots[-1]}.values()]


def slots_of_pickle(name):
    def edit(place, path, fn):
        damage.change(os.path.join(place, name), lambda root: fn(descend(root, path[:-1]), path[-1]))
    return lambda place: slots_of(name, load(os.path.join(place, name)), edit)


def slots_of_json(name):
    def edit(place, path, fn):
        with open(os.path.join(place, name), encoding="utf-8") as file:
            root = json.load(file)
        fn(descend(root, path[:-1]), path[-1])
        with open(os.path.join(place, name), "w", encoding="utf-8") as file:
            json.dump(root, file, default=bytes.decode)

    def slots(place):
        with open(os.path.join(place, name), encoding="utf-8") as file:
            return slots_of(name, json.load(file), edit)
    return slots


def slots_of_dcp(name):
    """Objects among the shards: each is a value of its own, or a dictionary."""
    def edit_blob(place, fqn, path, fn):
        def edit(blob):
            holder = {"root": load(blob)}
            fn(descend(holder, ("root", *path)[:-1]), ("root", *path)[-1])
            if "root" in holder:
                store(blob, holder["root"])
        holder = {"root": 0}
        try:
            fn(holder, "root")
        except (TypeError, AttributeError, KeyError, IndexError):
            pass
        if "root" not in holder and not path:
            damage.dcp_drop(os.path.join(place, name), fqn)
            return
        damage.edit_blob = edit
        damage.dcp_blob(os.path.join(place, name), fqn, "edit_blob")

    def slots(place):
        directory = os.path.dirname(os.path.join(place, name))
        found = []
        for index, info in load(os.path.join(place, name)).state["storage_data"].items():
            fqn = index.state["fqn"]
            last = fqn.rsplit(".", 1)[-1]
            is_setting = ".param_groups." in fqn and last in (*SETTINGS, "params")
            if not (fqn.endswith(".step") or is_setting or re.search(r"optimizer/shard|common_state", fqn)):
                continue
            with open(os.path.join(directory, info.state["relative_path"]), "rb") as file:
                file.seek(info.state["offset"])
                blob = os.path.join(place, "blob")
                with open(blob, "wb") as out:
                    out.write(file.read(info.state["length"]))
            root = load(blob)
            os.remove(blob)
            if fqn.endswith(".step") or is_setting:
                kind = {"step": "step", "params": "numbers"}.get(last, "setting")
                group = int(fqn.split(".")[-2]) if is_setting else 0
                found.append(Slot(kind, last, group, fqn, lambda to, fn, fqn=fqn: edit_blob(to, fqn, (), fn)))
            else:
                found += slots_of(fqn, root, lambda to, path, fn, fqn=fqn: edit_blob(to, fqn, path, fn))
        steps = [slot for slot in found if slot.kind == "step"]
        return [slot for slot in found if slot.kind != "step"] + steps[:1] + steps[1:][-1:]
    return slots


def slot_of_step_file(name):
    def edit(place, fn):
        holder = {"root": load(os.path.join(place, name))}
        fn(holder, "root")
        if "root" in holder:
            store(os.path.join(place, name), holder["root"])
        else:
            os.remove(os.path.join(place, name))
    return lambda place: [Slot("step", "step", 0, name, edit)]


def files_of(place):
    return sorted(os.path.relpath(os.path.join(root, name), place) for root, _, names in os.walk(place) for name in names)


def find_slots(place):
    found = []
    step_files = [name for name in files_of(place) if os.path.basename(name) == "step.pt"]
    for name in files_of(place):
        base = os.path.basename(name)
        if base == "optimizer.json" and not any(other.endswith("metadata.json") for other in files_of(place)):  # Megatron's reader takes none
            found += slots_of_json(name)(place)
        elif base == ".metadata":
            found += slots_of_dcp(name)(place)
        elif name in step_files:
            found += slot_of_step_file(name)(place) if name in (step_files[0], step_files[-1]) else []
        elif re.fullmatch(r"(optim_world.*|.*optim_states|common|model_optim_rng|optimizer_state)\.pt", base):
            found += slots_of_pickle(name)(place)
    return found


# Changes.

def put(value):
    return lambda container, key: container.__setitem__(key, value)


def drop(container, key):
    del container[key]


STEPS = {"dropped": drop, "None": put(None), "NaN": put(float("nan")), "infinite": put(float("inf")), "a text": put("3"), "bytes": put(b"3"), "a flag": put(True), "below zero": put(-5),
         "a fraction": put(2.5), "beyond 2^53": put(float(2**53 + 2)), "beyond 2^63": put(2**70), "two": put([3.0, 3.0]), "another": put(700)}
VALUES = {"lr": 5.0, "betas": [0.5, 0.6], "eps": 0.5, "weight_decay": 0.75}
TYPES = {"dropped": drop, "None": put(None), "a text": put("0.1"), "bytes": put(b"0.1"), "NaN": put(float("nan")), "two": put([0.1, 0.2, 0.3]), "a flag": put(True), "below zero": put(-1.0)}
# 1 is 1.0: each has its value, spelled in another way.
SPELLED = {"wd_mult": lambda container, key: container.__setitem__(key, int(container[key]))}


def first_two(container, key):
    container[key][0], container[key][1] = container[key][1], container[key][0]


def members_exchanged(container, key):
    one, other = container[key][0]["params"], container[key][1]["params"]
    one[0], other[0] = other[0], one[0]


NUMBERS = {"twice": lambda container, key: container[key].__setitem__(-1, container[key][0]) if len(container[key]) > 1 else container[key].append(container[key][0]),
           "left out": lambda container, key: container[key].pop(), "exchanged": first_two,
           "of nothing": lambda container, key: container[key].append("no.such.weight" if isinstance(container[key][0], str) else 99)}
GROUPS = {"dropped": drop, "none": put([]), "the last dropped": lambda container, key: container[key].pop(), "exchanged": first_two,
          "the last twice": lambda container, key: container[key].append(container[key][-1]), "retyped": put("groups"), "members exchanged": members_exchanged}
MOMENTS = {"in a tuple": lambda container, key: container.__setitem__(key, (container[key],)), "None": put(None), "dropped": drop}
STATES = {"renumbered": lambda container, key: container[key].__setitem__(99, container[key].pop(0)), "dropped": lambda container, key: container[key].pop(0),
          "one more": lambda container, key: container[key].__setitem__(99, container[key][0])}


def want_step(value):
    return lambda told: {**told, "step": value}


def want_setting(group, name, value):
    def make(told):
        made = copy.deepcopy(told)
        made["groups"][group][name] = value
        return made
    return make


def want_fewer_groups(told):
    return {**told, "groups": told["groups"][:-1]}


def want_members_exchanged(told):
    made = copy.deepcopy(told)
    members_exchanged(made, "groups")
    for group in made["groups"]:
        group["params"].sort()
    return made


def changes_of(slots):
    def one(slot, label, fn, wanted=None):
        return Change(f"{slot.where}: {label}", lambda place: slot.edit(place, fn), wanted)

    steps = [slot for slot in slots if slot.kind == "step"]
    for slot in steps:
        for label, fn in STEPS.items():
            yield one(slot, label, fn, want_step(700) if len(steps) == 1 and label == "another" else None)
    for slot in slots:
        alone = sum(other.kind == "setting" and (other.name, other.group) == (slot.name, slot.group) for other in slots) == 1
        if slot.kind == "setting" and slot.name in VALUES:
            value = VALUES[slot.name]
            yield one(slot, "another", put(value), want_setting(slot.group, slot.name, value) if alone else None)
        for label, fn in (TYPES if slot.kind == "setting" else NUMBERS if slot.kind == "numbers" else GROUPS if slot.kind == "groups" else
                          STATES if slot.kind == "states" else MOMENTS if slot.kind == "moment" else {}).items():
            if slot.name == "is_expert_parallel" and label == "a flag" or slot.name == "betas" and label == "two":
                continue
            # The one list of Megatron's groups, which its rule gives members.
            is_whole = sum(other.kind == "groups" for other in slots) == 1
            yield one(slot, label, fn, {"the last dropped": want_fewer_groups, "members exchanged": want_members_exchanged}.get(label) if is_whole else None)
        if slot.kind == "setting" and slot.name in SPELLED:
            yield one(slot, "spelled in another way", SPELLED[slot.name])


# Runs.

@dataclass(frozen=True)
class Save:
    name: str
    place: str      # has source, and hf where it needs one
    baseline: tuple = ()


def arguments_of(place, out, to="hf"):
    config = os.path.join(place, "hf")
    return ["reshape", os.path.join(place, "source"), out, "--to", to, "--state", "all", "--no_fsync", "--check_crc", "off",
            *(["--hf_config", config] if os.path.isdir(config) else [])]


def run(program, arguments):
    done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120, check=False,
                          env=merge.environment())
    return done.returncode, done.stderr.decode(errors="replace")


def read(out):
    """(tensors, what optimizer.json says; the step once)"""
    model = merge.model_of(out)
    told = json.loads(model.others["optimizer/optimizer.json"])
    for group in told["groups"]:
        group.pop("step", None)
    return model.tensors, told


def meaning(told):
    """What two optimizer.json say alike: groups have no order, nor are they others where they stand twice."""
    return {**told, "groups": sorted({json.dumps(group, sort_keys=True) for group in told["groups"]})}


def judge(save, change, code, message, out):
    """(outcome, detail)"""
    if code in REFUSALS:
        n_messages = len(re.findall(r"^error: ", message, re.M))
        return ("failed", f"{n_messages} messages") if n_messages != 1 or os.path.exists(out) else ("refused", message.strip())
    if code != 0:
        return "failed", message.strip()[:300]
    tensors, told = read(out)
    if tensors == save.baseline[0]:
        if meaning(told) == meaning(save.baseline[1]):
            return "same", ""
        if change.wanted and meaning(told) == meaning(change.wanted(save.baseline[1])):
            return "stated", ""
    if re.search("^warning: .*(optimizer|group)", message, re.M):
        return "warned", message.strip()
    other = sorted(name for name in save.baseline[0] if tensors.get(name) != save.baseline[0][name])
    return "failed", f"tensors {other[:3]}, optimizer.json {[key for key in told if told[key] != save.baseline[1].get(key)]}"


def try_one(program, work, save, change, number):
    place, out = os.path.join(work, f"changed-{number}"), os.path.join(work, f"out-{number}")
    shutil.copytree(save.place, place)
    try:
        change.make(os.path.join(place, "source"))
        code, message = run(program, arguments_of(place, out))
        return (*judge(save, change, code, message, out), code)
    except (KeyError, IndexError, AttributeError, TypeError) as fault:
        return "idle", repr(fault), 0
    finally:
        shutil.rmtree(place)
        shutil.rmtree(out, ignore_errors=True)


def saves(program, data, work, only):
    """All saves with a name that has `only` in it, and what they are unchanged."""
    places = {}
    for name, place in SAVES.items():
        places[name] = os.path.join(work, name)
        shutil.copytree(os.path.join(data, place), places[name], ignore=shutil.ignore_patterns("expected"))
    for name, origin in WRITTEN.items():
        if only in name:
            places[name] = os.path.join(work, name.replace(" ", "-"))
            code, message = run(program, arguments_of(places[origin], os.path.join(places[name], "source"), name.split()[0]))
            if code:
                raise RuntimeError(f"{name}: {message}")
            shutil.copytree(os.path.join(places[origin], "hf"), os.path.join(places[name], "hf"))
    for name, place in places.items():
        if only in name:
            if name.startswith("hf"):
                shutil.rmtree(os.path.join(place, "hf"))
            out = os.path.join(work, "baseline")
            code, message = run(program, arguments_of(place, out))
            if code:
                raise RuntimeError(f"{name}: {message}")
            yield Save(name, place, read(out))
            shutil.rmtree(out)


def sampled(tasks, n):
    """So many, the same ones every time: of each save one, then what comes first by its checksum."""
    tasks = sorted(tasks, key=lambda task: zlib.crc32(f"{task[0].name} {task[1].what}".encode()))
    first = {}
    for task in tasks:
        first.setdefault(task[0].name, task)
    chosen = list(first.values())
    return (chosen + [task for task in tasks if task not in chosen])[:n]


def main():
    parser = argparse.ArgumentParser(prog="scripts/metamorphic.sh states", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"), help="where the program is (build/bin)")
    parser.add_argument("--data", default=os.path.join(ROOT, "tests/data"), help="where the saves are (tests/data)")
    parser.add_argument("--only", default="", help="saves with this in their names")
    parser.add_argument("--what", default="", help="changes with this in their names")
    parser.add_argument("--sample", type=int, default=0, help="about so many changes, of every save")
    parser.add_argument("--list", action="store_true", help="print every change and what came of it")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    given = parser.parse_args()
    begin = time.monotonic()
    program = os.path.join(os.path.realpath(given.bin), "shardweld")
    counts, n = Counter(), 0
    with tempfile.TemporaryDirectory(prefix="shardweld-states.", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as work, ThreadPoolExecutor(given.jobs) as pool:
        tasks = [(save, change) for save in saves(program, given.data, work, given.only) for change in changes_of(find_slots(os.path.join(save.place, "source")))
                 if given.what in change.what]
        tasks = sampled(tasks, given.sample) if given.sample else tasks
        for (save, change), (outcome, detail, code) in zip(tasks, pool.map(lambda one: try_one(program, work, *one[1], one[0]), enumerate(tasks))):
            counts[outcome] += 1
            n += 1
            if outcome == "failed" or given.list:
                print(f"{outcome.upper()} {save.name} | {change.what} | {code} | {detail}", flush=True)
    print(f"{n} changes of states: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) + f", {time.monotonic() - begin:.0f} s")
    return 1 if counts["failed"] or not n else 0


if __name__ == "__main__":
    sys.exit(main())

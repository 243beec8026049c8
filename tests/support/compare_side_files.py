#!/usr/bin/env python3
"""Compares what lies beside the weights of two models: which files there are, and the values of their configs.

    compare_side_files.py VERL OURS

docs/using/verl.md names what may differ: config.json and the tokenizer are the trained model's own here, and transformers' new edition of
them there; an adapter's settings are the trainer's, which say more. Exits 1 and says what else does.
"""
import json
import os
import sys

# What the installed transformers writes of itself: its version, and the name that it has for the dtype.
OWN = {"transformers_version", "dtype", "torch_dtype", "_name_or_path"}
ADAPTER = "lora_adapter/adapter_config.json"


def read(directory, name):
    path = os.path.join(directory, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def flat(value, path=""):
    if isinstance(value, dict):
        return {key: one for name, inner in value.items() for key, one in flat(inner, f"{path}{name}.").items()}
    return {path[:-1]: value}


def differences(verl, ours):
    """Fields that both state, or only we state, unlike; what only verl states is a default that its release of transformers has put in."""
    theirs, own = flat(verl), flat(ours)
    return [f"{field}: {theirs.get(field, 'absent')} by verl, {value} by shardweld"
            for field, value in own.items() if field.split(".")[-1] not in OWN and value is not None and theirs.get(field) != value]


def settings(directory):
    """Of an adapter, as far as the weights depend on them; modules in any order."""
    config = read(directory, ADAPTER) or {}
    return {**{name: config.get(name) for name in ("peft_type", "task_type", "r", "lora_alpha", "use_rslora", "use_dora", "bias", "fan_in_fan_out")},
            "target_modules": sorted(config.get("target_modules", []))}


def main():
    verl, ours = sys.argv[1:3]
    found = []
    for name in ("config.json", "generation_config.json"):
        theirs, own = read(verl, name), read(ours, name)
        if (theirs is None) != (own is None):
            found.append(f"{name} is written by {'shardweld' if theirs is None else 'verl'} alone")
        elif theirs is not None:
            found += [f"{name}: {text}" for text in differences(theirs, own)]
            found += [f"{name}: {text}" for text in differences(own, theirs)] if name == "generation_config.json" else []
    found += [f"{ADAPTER}: {field}: {value} by verl, {settings(ours)[field]} by shardweld"
              for field, value in settings(verl).items() if settings(ours)[field] != value]
    dtypes = [config.get("dtype", config.get("torch_dtype")) for config in (read(verl, "config.json"), read(ours, "config.json"))]
    if dtypes[0] != dtypes[1]:
        found.append(f"config.json: dtype {dtypes[0]} by verl, {dtypes[1]} by shardweld")
    names = [set(os.listdir(directory)) for directory in (verl, ours)]
    found += [f"{name} is written by verl alone" for name in sorted(names[0] - names[1])]
    found += [f"{name} is written by shardweld alone" for name in sorted(names[1] - names[0])]
    sys.exit("\n".join(found) or 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Usage: known-names.py SITE_PACKAGES

Writes known.txt and gguf.txt of `shardweld check`: the model types and classes that transformers, vLLM and SGLang know, the architectures of gguf and
the tensors that each has, read from their sources in SITE_PACKAGES (`pip install --no-deps`, or their wheels unpacked), where none of them is imported.
Model types of transformers are in src/models/recipes/transformers.list; classes that are called as one of them are left out.
"""

import ast
import collections
import pathlib
import re
import sys
import textwrap

PLACE = pathlib.Path(__file__).parent.parent / "python/commands/shardweld_commands/check"
HEADS = r"(For[A-Z]\w*|LMHeadModel|DoubleHeadsModel|ChatModel|Model)$"
SPOKEN = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "ForSequenceClassification", "ForTokenClassification")


def assignments(path):
    """Name and value of each assignment of a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield getattr(target, "id", ""), node.value


def texts(node):
    return [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def plain(name):
    return re.sub(r"[^a-z0-9]", "", re.sub(HEADS, "", name).lower())


def of_transformers(root):
    types, classes = set(), set()
    for path in (root / "transformers/models/auto").glob("*.py"):
        for name, value in assignments(path):
            pairs = [texts(one) for one in ast.walk(value or ast.Constant(0)) if isinstance(one, ast.Tuple)] if name.endswith("_MAPPING_NAMES") else []
            for pair in pairs:
                if name.startswith("CONFIG_MAPPING"):
                    types.add(pair[0])
                elif name.startswith("MODEL"):
                    classes.update(one for one in pair[1:] if one.endswith(SPOKEN))
    return types, classes


def of_vllm(root):
    types, classes = set(), set()
    for name, value in assignments(root / "vllm/transformers_utils/config.py"):
        if name == "_CONFIG_REGISTRY":
            types |= {one.arg for one in value.keywords}
    for name, value in assignments(root / "vllm/model_executor/models/registry.py"):
        if name.endswith("_MODELS") and isinstance(value, ast.Dict) and not name.startswith(("_PREVIOUSLY", "_OOT")):
            classes |= {key.value for key in value.keys if isinstance(key, ast.Constant)}
    return types, classes


def of_sglang(root):
    types, classes = set(), set()
    for path in (root / "sglang/srt/models").rglob("*.py"):
        for name, value in assignments(path):
            if name == "EntryClass":
                classes |= {one.id for one in ast.walk(value) if isinstance(one, ast.Name)}
    for path in (root / "sglang/srt/configs").glob("*.py"):
        for name, value in assignments(path):
            if name == "model_type" and isinstance(value, ast.Constant) and isinstance(value.value, str):
                types.add(value.value)
    return types, classes


def of_gguf(root):
    """The architectures' names, and by those that have them the names of tensors, without the part of rotary factors that llama.cpp no longer reads."""
    tables = {name: value for name, value in assignments(root / "gguf/constants.py") if isinstance(value, ast.Dict)}
    rows = {name: {key.attr: value for key, value in zip(tables[name].keys, tables[name].values)} for name in ("MODEL_ARCH_NAMES", "TENSOR_NAMES", "MODEL_TENSORS")}
    names = {arch: value.value for arch, value in rows["MODEL_ARCH_NAMES"].items()}
    owners = collections.defaultdict(set)
    for arch, tensors in rows["MODEL_TENSORS"].items():
        for tensor in tensors.elts:
            owners[rows["TENSOR_NAMES"][tensor.attr].value.replace("{bid}", "#")].add(names[arch])
    by_owners = collections.defaultdict(list)
    for tensor, archs in owners.items():
        if archs != {"clip"} and not tensor.endswith("attn_rot_embd"):
            by_owners[",".join(sorted(archs - {"clip"}))].append(tensor)
    return set(names.values()), by_owners


def filled(key, words):
    return textwrap.fill(f"{key}: {' '.join(sorted(filter(None, words)))}", 148, break_on_hyphens=False, break_long_words=False) + "\n"


def main():
    root = pathlib.Path(sys.argv[1])
    known, own = of_transformers(root)
    called = {plain(one) for one in known}
    text = filled("transformers-classes", {one for one in own if plain(one) not in called})
    for loader, (types, classes) in {"vllm": of_vllm(root), "sglang": of_sglang(root)}.items():
        text += filled(loader + "-types", types - known) + filled(loader + "-classes", {one for one in classes if plain(one) not in called} - own)
    architectures, tensors = of_gguf(root)
    (PLACE / "known.txt").write_text(text + filled("gguf-architectures", architectures))
    (PLACE / "gguf.txt").write_text("".join(filled(archs, names) for archs, names in sorted(tensors.items())))


main()

#!/usr/bin/env python3
"""Usage: known-names.py SITE_PACKAGES > src/loaders/known_lists.cpp

The model types and classes that transformers, vLLM and SGLang know, and the architectures of gguf, read from their sources in SITE_PACKAGES
(`pip install --no-deps`, or their wheels unpacked), where none of them is imported. Classes that are called as a model type of transformers are
left out.
"""

import ast
import pathlib
import re
import sys
import textwrap

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
    for name, value in assignments(root / "gguf/constants.py"):
        if name == "MODEL_ARCH_NAMES":
            return {one.value for one in value.values}
    return set()


def listed(name, words):
    body = textwrap.fill(" ".join(sorted(one for one in words if one)), 98, break_on_hyphens=False, break_long_words=False)
    print(f'\nconst std::string_view k{name} = R"(\n{body})";')


def main():
    root = pathlib.Path(sys.argv[1])
    known, own = of_transformers(root)
    called = {plain(one) for one in known}
    print('// Written by scripts/known-names.py of transformers 5.24, vLLM 0.33, SGLang 0.5.23 and gguf 0.19.\n#include "known_names.hpp"\n\nnamespace shardweld::loaders {')
    for loader, (types, classes) in {"Transformers": (known, own), "Vllm": of_vllm(root), "Sglang": of_sglang(root)}.items():
        more = types if loader == "Transformers" else types - known
        rest = {one for one in classes if plain(one) not in called}
        for kind, names in {"Types": more, "Classes": rest if loader == "Transformers" else rest - own}.items():
            listed(loader + kind, names)
    listed("GgufArchitectures", of_gguf(root))
    print("\n}  // namespace shardweld::loaders")


main()

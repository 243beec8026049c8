#!/usr/bin/env python3
"""Usage: known-nulls.py > src/loaders/known_nulls.cpp     (needs transformers)

For which fields of config.json each configuration of transformers refuses null, as seen by making it of such a file. Of the fields in
src/loaders/field_types.cpp; what a configuration has no such field for, it takes.
"""

import collections
import dataclasses
import pathlib
import re
import string
import textwrap

import transformers

LETTERS = string.ascii_letters + string.digits + "+-*/"
TABLE = pathlib.Path(__file__).parent.parent / "src/loaders/field_types.cpp"


def nullable_fields():
    """Those that some configuration takes null for."""
    lines = re.search(r'kFields = R"\((.*?)\)"', TABLE.read_text(), re.S).group(1)
    kinds = ""
    for word in lines.split():
        if word.endswith(":"):
            kinds = word
        elif "n" in kinds:
            yield word


def refuses(configuration, field):
    try:
        configuration.from_dict({"model_type": configuration.model_type, field: None})
    except Exception as error:  # noqa: BLE001: others come of other fields
        return "NoneType (value: None)" in str(error)
    return False


def main():
    transformers.logging.set_verbosity(50)
    refused = collections.defaultdict(set)  # by field: model types
    for model_type in transformers.CONFIG_MAPPING:
        try:
            configuration = transformers.CONFIG_MAPPING[model_type]
            configuration()
        except Exception:  # noqa: BLE001: not made without more
            continue
        own = {field.name for field in dataclasses.fields(configuration)}
        for field in own.intersection(nullable_fields()):
            if refuses(configuration, field):
                refused[field].add(model_type)
    fields = sorted(field for field, types in refused.items() if len(types) > 4)
    letters = dict(zip(fields, LETTERS, strict=False))
    alike = collections.defaultdict(list)
    for model_type in sorted(transformers.CONFIG_MAPPING):
        alike["".join(letters[field] for field in fields if model_type in refused[field])].append(model_type)
    alike.pop("", None)
    words = " ".join(f"{key}: {' '.join(types)}" for key, types in sorted(alike.items()))
    print('// Written by scripts/known-nulls.py of transformers 5.24.\n#include "known_names.hpp"\n\nnamespace shardweld::loaders {')
    for name, body in (("kNullFields", " ".join(f"{letter} {field}" for field, letter in letters.items())), ("kNullRefusals", words)):
        filled = textwrap.fill(body, 98, break_on_hyphens=False, break_long_words=False)
        print(f'\nconst std::string_view {name} = R"(\n{filled}\n)";')
    print("\n}  // namespace shardweld::loaders")


main()

#!/usr/bin/env python3
"""Usage: known-nulls.py > python/commands/shardweld_commands/check/nulls.txt     (needs transformers)

For which fields of config.json each configuration of transformers refuses null, as seen by making it of such a file. Of the fields in
fields.txt beside it; what a configuration has no such field for, it takes.
"""

import collections
import dataclasses
import pathlib
import string
import textwrap

import transformers

LETTERS = string.ascii_letters + string.digits + "+-*/"
TABLE = pathlib.Path(__file__).parent.parent / "python/commands/shardweld_commands/check/fields.txt"


def nullable_fields():
    """Those that some configuration takes null for."""
    kinds = ""
    for word in TABLE.read_text().split():
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
    for rows in ({letter: ["=" + field] for field, letter in letters.items()}, dict(sorted(alike.items()))):
        words = " ".join(f"{key}: {' '.join(types)}" for key, types in rows.items())
        print(textwrap.fill(words, 148, break_on_hyphens=False, break_long_words=False))


main()

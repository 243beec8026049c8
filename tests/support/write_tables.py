"""Usage: write_tables.py TABLES WORK

Writes models with the names and shapes of TABLES (tests/data/hf_names) into directories of WORK, a tokenizer beside each.
"""
import pathlib
import sys

import plan_tables

WORDS = '{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}'

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    table = plan_tables.json.loads(path.read_text())
    directory = pathlib.Path(sys.argv[2]) / path.stem
    plan_tables.write_model(directory, table["config"], plan_tables.unfolded(table["saved"]))
    (directory / "tokenizer.json").write_text(WORDS)

"""Usage: random_model.py TABLE OUT

A model of random bf16 values with the names and shapes of a table of tests/data/hf_names, and its config.json.
"""

import json
import math
import pathlib
import random
import sys

import edit_safetensors
import plan_tables

table = json.loads(pathlib.Path(sys.argv[1]).read_text())
out = pathlib.Path(sys.argv[2])
out.mkdir(parents=True)
(out / "config.json").write_text(json.dumps(table["config"]))
values = random.Random(5)
shapes = plan_tables.unfolded(table["saved"])
edit_safetensors.write(str(out / "model.safetensors"), {name: ["BF16", shape, values.randbytes(2 * math.prod(shape))] for name, shape in shapes.items()})

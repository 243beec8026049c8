"""Usage: make_spelling.py CASE [ARGUMENTS]

Models in other spellings of the hub, for tests of --hf_config with a reference.

    packed MODEL OUT        MODEL with the experts of each layer in two tensors, output dims first
    index MODEL OUT         only the index that a model of MODEL's names would have
    turned MODEL OUT        MODEL with the dims of each `experts.` tensor of three dims in the other order
    begun MODEL OUT OLD NEW MODEL with names that begin with NEW instead of OLD
"""

import json
import pathlib
import re
import sys

import edit_safetensors as files


def packed(tensors):
    made, parts = {}, {}
    for name, tensor in tensors.items():
        found = re.fullmatch(r"(.*\.experts\.)(\d+)\.(gate|up|down)_proj\.weight", name)
        if found:
            parts.setdefault(found[1], {}).setdefault(int(found[2]), {})[found[3]] = tensor
        else:
            made[name] = tensor
    for prefix, experts in parts.items():
        in_order = [experts[at] for at in sorted(experts)]
        dtype, (rows, columns), _ = in_order[0]["gate"]
        both = b"".join(bytes(one["gate"][2] + one["up"][2]) for one in in_order)
        made[prefix + "gate_up_proj"] = [dtype, [len(in_order), 2 * rows, columns], both]
        made[prefix + "down_proj"] = [dtype, [len(in_order), columns, rows], b"".join(bytes(one["down"][2]) for one in in_order)]
    return made


def turned(tensors):
    made = {}
    for name, (dtype, shape, data) in tensors.items():
        if ".experts." in name and len(shape) == 3:
            size = files.SIZES[dtype]
            experts, rows, columns = shape
            elements = [bytes(data[at:at + size]) for at in range(0, len(data), size)]
            data = b"".join(elements[(e * rows + r) * columns + c] for e in range(experts) for c in range(columns) for r in range(rows))
            shape = [experts, columns, rows]
        made[name] = [dtype, shape, data]
    return made


def main():
    case, model, out, *rest = sys.argv[1:]
    tensors = {name: one for path in sorted(pathlib.Path(model).glob("*.safetensors")) for name, one in files.read(str(path)).items()}
    out = pathlib.Path(out)
    out.mkdir(parents=True)
    if case == "index":
        (out / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {name: "model-00001-of-00001.safetensors" for name in tensors}}))
        return
    if case == "begun":
        tensors = {rest[1] + name[len(rest[0]):] if name.startswith(rest[0]) else name: one for name, one in tensors.items()}
    files.write(str(out / "model.safetensors"), {"packed": packed, "turned": turned, "begun": dict}[case](tensors))


main()

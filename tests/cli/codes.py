#!/usr/bin/env python3
"""Models as others quantise them, made with the standard library of what tests/data/quant has.

    codes.py one-scale MODEL OUT DTYPE SHAPE EXPECTED   FP8 with a scale for each matrix, and the values that it stands for
    codes.py change MODEL OUT drop NAME | resize NAME EXTENT
    codes.py config MODEL CODE                          runs CODE on `config`
    codes.py drop-scales MODEL
    codes.py two-groups A B OUT VALUES                  attention of model A, all else of B; OUT.values stand beside both
    codes.py others MODEL OUT METHOD ENDING             names of another library; without ENDING integers of 8 bits
"""
import json
import pathlib
import shutil
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
import edit_safetensors

WEIGHTS = "model.safetensors"


def load(directory):
    return edit_safetensors.read(pathlib.Path(directory) / WEIGHTS)


def save(directory, like, tensors):
    if directory != like:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(like, directory)
    edit_safetensors.write(pathlib.Path(directory) / WEIGHTS, tensors)


def config(directory, code):
    path = pathlib.Path(directory) / "config.json"
    fields = json.loads(path.read_text())
    exec(code, {"config": fields})
    path.write_text(json.dumps(fields))


def bf16(value):
    """The nearest one, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def rounded(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    size = (8 + mantissa) * 2.0 ** (exponent - 10) if exponent else mantissa * 2.0 ** -9
    return -size if code & 128 else size


def is_linear(name):
    return name.endswith("_proj.weight")


def one_scale(model, out, dtype, shape, expected):
    wanted, stored = load(model), {}
    extents = [int(extent) for extent in shape.split(",")] if shape else []
    for number, (name, tensor) in enumerate(list(wanted.items())):
        stored[name] = tensor
        if not is_linear(name):
            continue
        scale = struct.pack("<f", 0.003 + number / 7919)
        if dtype == "BF16":
            scale = scale[2:]
        value = struct.unpack("<f", scale.rjust(4, b"\0"))[0]
        data = bytes((at * 31 + number) % 127 | (at & 128) for at in range(len(tensor[2]) // 2))
        products = [bf16(rounded(e4m3(code) * value)) for code in range(256)]
        stored[name] = ["F8_E4M3", tensor[1], data]
        stored[name + "_scale_inv"] = [dtype, extents, scale]
        stored[name.replace("weight", "activation_scale")] = ["BF16", [], b"\x80\x3f"]
        wanted[name] = ["BF16", tensor[1], b"".join(products[code] for code in data)]
    save(out, model, stored)
    save(expected, model, wanted)
    config(out, 'config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None}')


def change(model, out, action, name, extent=None):
    tensors = load(model)
    if action == "drop":
        del tensors[name]
    else:
        tensors[name][1:] = [[int(extent)], bytes(tensors[name][2]) * int(extent)]
    save(out, model, tensors)


def drop_scales(model):
    save(model, model, {name: tensor for name, tensor in load(model).items() if not name.endswith(("scale_inv", "_scale"))})


def two_groups(a, b, out, values):
    def mixed(one, other):
        is_first = lambda name: ".self_attn." in name
        return {n: t for n, t in load(one).items() if is_first(n)} | {n: t for n, t in load(other).items() if not is_first(n)}

    save(out, a, mixed(a, b))
    save(values, a + ".values", mixed(a + ".values", b + ".values"))
    groups = {}
    for at, (model, target) in enumerate(((a, "re:.*self_attn.*"), (b, "Linear"))):
        fields = json.loads((pathlib.Path(model) / "config.json").read_text())
        groups[f"group_{at}"] = fields["quantization_config"]["config_groups"]["group_0"] | {"targets": [target]}
    config(out, f'config["quantization_config"].update(format="mixed-precision", config_groups={groups!r})')


def others(model, out, method, ending):
    stored = {}
    for name, tensor in load(model).items():
        if not is_linear(name):
            stored[name] = tensor
        elif ending:
            stored[name.removesuffix("weight") + ending] = ["I32", [len(tensor[2]) // 4], tensor[2]]
        else:
            stored[name] = ["I8", tensor[1], bytes(len(tensor[2]) // 2)]
    save(out, model, stored)
    (pathlib.Path(out) / "hf_quant_config.json").write_text("{}")
    config(out, f'config["quantization_config"] = {{"quant_method": {method!r}}}')


COMMANDS = {"one-scale": one_scale, "change": change, "config": config, "drop-scales": drop_scales, "two-groups": two_groups, "others": others}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])

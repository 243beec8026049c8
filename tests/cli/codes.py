#!/usr/bin/env python3
"""Models as others quantise them, made with the standard library of what tests/data/quant has.

    codes.py one-scale MODEL OUT DTYPE SHAPE EXPECTED   FP8 with a scale for each matrix, and the values that it stands for
    codes.py two-groups A B OUT VALUES                  attention of model A, all else of B; OUT.values stand beside both
    codes.py others MODEL OUT METHOD ENDING             names of another library; without ENDING integers of 8 bits
    codes.py layout MODEL OUT KIND                      tensors as another library stores weights, and nothing of it in config.json
    codes.py after-forward MODEL OUT                    scales beside the values, as compressed-tensors saves a model that it has unpacked
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


def config(directory, **changed):
    """Of quantization_config."""
    path = pathlib.Path(directory) / "config.json"
    fields = json.loads(path.read_text())
    fields["quantization_config"] = fields.get("quantization_config", {}) | changed
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
    config(out, quant_method="fp8", activation_scheme="static", weight_block_size=None)


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
    config(out, format="mixed-precision", config_groups=groups)


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
    config(out, quant_method=method)


# By kind: what stands in the place of X.weight [r, c]: how it ends, its type and shape.
LAYOUTS = {
    "mlx-affine": lambda r, c: {"weight": ("U32", r, c // 8), "scales": ("BF16", r, c // 64), "biases": ("BF16", r, c // 64)},
    "mlx-mxfp4": lambda r, c: {"weight": ("U32", r, c // 8), "scales": ("U8", r, c // 32)},
    "torchao-float8": lambda r, c: {"_weight_qdata": ("F8_E4M3", r, c), "_weight_scale": ("F32", r, 1)},
    "torchao-int4": lambda r, c: {"_weight_qdata": ("U8", r, c // 2), "_weight_scale": ("BF16", c // 32, r), "_weight_zero_point": ("BF16", c // 32, r)},
    "bnb-nf4": lambda r, c: {"weight": ("U8", r * c // 2, 1), "weight.absmax": ("U8", r * c // 64), "weight.quant_map": ("F32", 16)},
    "bnb-int8": lambda r, c: {"weight": ("I8", r, c), "SCB": ("F32", r), "weight_format": ("U8",)},
    "gptq": lambda r, c: {"qweight": ("I32", c // 8, r), "qzeros": ("I32", c // 128, r // 8), "scales": ("F16", c // 128, r), "g_idx": ("I32", c)},
    "awq": lambda r, c: {"qweight": ("I32", c, r // 8), "qzeros": ("I32", c // 128, r // 8), "scales": ("F16", c // 128, r)},
    "hqq": lambda r, c: {"W_q": ("U8", r * c // 128, 64), "scale": ("BF16", r, 1), "zero": ("BF16", r, 1)},
    "eetq": lambda r, c: {"weight": ("I8", c, r), "weight_scales": ("F16", r)},
    "aqlm": lambda r, c: {"codes": ("I16", r, c // 8, 1), "codebooks": ("F16", 1, 256, 1, 8), "scales": ("F16", r, 1, 1, 1)},
    "quanto": lambda r, c: {"weight._data": ("I8", r, c), "weight._scale": ("BF16", r, 1), "input_scale": ("BF16",)},
    "spqr": lambda r, c: {"dense_weights": ("I64", r * c // 16), "row_offsets": ("I32", r + 1), "col_vals": ("I32", 4), "in_perm": ("I16", c)},
    "vptq": lambda r, c: {"centroids.weight": ("F16", 1, 2048), "indices": ("I32", 1, r, c // 32), "weight_scale": ("F16", c), "weight_bias": ("F16", c)},
    "quip": lambda r, c: {"Qidxs": ("I64", r, c // 64), "SU": ("F16", c), "SV": ("F16", r), "codebook_id": ("I64",)},
    "higgs": lambda r, c: {"weight": ("I16", r // 4, c), "scales": ("F16", r, c // 64), "tables": ("F16", 16), "tables2": ("F32", 16, 16, 1)},
    "bitnet": lambda r, c: {"weight": ("U8", r // 4, c), "weight_scale": ("BF16", 1)},
    "modelopt-nvfp4": lambda r, c: {"weight": ("U8", r, c // 2), "weight_scale": ("F8_E4M3", r, c // 16), "weight_scale_2": ("F32",)},
    "fp-quant": lambda r, c: {"dqweight": ("U8", r, c // 2), "scales": ("U8", r, c // 32), "forward_hadamard_matrix": ("BF16", 32, 32)},
    "exl2": lambda r, c: {"q_weight": ("I32", c // 8, r), "q_scale": ("I32", 1, r // 8), "q_groups": ("I16", 2)},
    "exl3": lambda r, c: {"trellis": ("I16", c // 16, r // 16, 64), "suh": ("F16", c), "svh": ("F16", r)},
    "marlin24": lambda r, c: {"weight_packed": ("I32", c // 32, r * 2), "scale_packed": ("F16", 1, r), "meta": ("I16", r, c // 16)},
    "unnamed": lambda r, c: {"weight": ("U8", r, c // 2), "of_nobody": ("F32", r)},
}
BITS = {"8": 8, "16": 16, "32": 32, "64": 64}


def zeros(dtype, *shape):
    count = 1
    for extent in shape:
        count *= extent
    bits = next(bits for ending, bits in BITS.items() if dtype.endswith(ending) or ending == "8" and dtype.startswith("F8"))
    return [dtype, list(shape), bytes(count * bits // 8)]


def layout(model, out, kind):
    stored = {}
    for name, tensor in load(model).items():
        if is_linear(name):
            for ending, form in LAYOUTS[kind](*tensor[1]).items():
                stored[name.removesuffix("weight") + ending] = zeros(*form)
        else:
            stored[name] = tensor
    save(out, model, stored)


def after_forward(model, out):
    stored = {}
    for name, tensor in load(model).items():
        stored[name] = tensor
        if is_linear(name):
            stored[name + "_scale"] = ["BF16", [tensor[1][0], 1], b"\x80\x3c" * tensor[1][0]]
            stored[name.replace("weight", "input_scale")] = ["BF16", [1], b"\x80\x3f"]
    save(out, model, stored)
    config(out, quant_method="compressed-tensors", format="float-quantized", quantization_status="compressed")


COMMANDS = {"layout": layout, "after-forward": after_forward, "one-scale": one_scale, "two-groups": two_groups, "others": others}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])

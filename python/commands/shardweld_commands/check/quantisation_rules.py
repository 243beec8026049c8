"""quantization_config against the tensors: what loads wrong without a word, and what is refused."""
from typing import Dict

from ..files import object_of, parsed
from ..text import printable, shape_text
from .known import known_words
from .model import Findings, Model
from .scheme import CODES
from .tensor_rules import TRY

WRITE_AGAIN = "write the model again, or copy all of its files"
WITHOUT_SCALES = "quantised weights have no scales: "


def _quantised_tensor(model: Model) -> str:
    """A tensor that is no plain weight, in whatever encoding; "" for none."""
    codes = (name for name, tensor in model.tensors.items()
             if (name.endswith("_blocks") and tensor.dtype == "U8") or (name.endswith(("weight", "_proj")) and tensor.dtype in CODES))
    return next(codes, "") or next((name for name, module in model.modules.items() if module.is_quantised), "")


def _tell_unstated(model: Model, tensor: str, found: Findings) -> None:
    """Quantisers that write no quantization_config describe what they did in files of their own."""
    beside = next((name for name in ("hf_quant_config.json", "quantize_config.json", "quant_config.json") if name in model.directory.files), "")
    if beside and not model.for_transformers:
        found.doubtful(f"{printable(tensor)} is quantised as {beside} says, which is not checked here", TRY)
    else:
        found.fatal(f"tensors are quantised ({printable(tensor)}), but config.json has no quantization_config",
                    f"transformers does not read {beside}: serve it with vLLM" if beside else
                    "the raw codes would be taken for weights: add it, or write the model again")


def _look_at_torchao(model: Model, found: Findings) -> None:
    """The classes of torchao's weights are in the metadata of the files, each under the weight's name."""
    for name in model.tensors:
        owner, is_part, part = name.partition("._weight_")
        if is_part and part not in object_of(parsed(model.weights.metadata.get(f"{owner}.weight", "").encode())).get("_tensor_data_names", ()):
            found.of(name, "the metadata of the safetensors files do not say of which of torchao's classes weights are: ",
                     "transformers would make them random: copy the files as they were saved")


def rule_quantised(model: Model, found: Findings) -> None:
    scheme, tensor = model.scheme, _quantised_tensor(model)
    called = f"quantization_config (quant_method {printable(scheme.stated)})"
    if not scheme.method and tensor:
        _tell_unstated(model, tensor, found)
    elif scheme.is_mlx:
        found.add(model.for_transformers, "config.json has a quantization_config of mlx-lm, without quant_method",
                  f"{model.loader.title} does not read mlx's codes: serve it with mlx-lm, or take the model that it was made of")
    elif scheme.method == "other" and not scheme.stated:
        found.add(model.for_transformers, "quantization_config of config.json has no quant_method", "transformers refuses it: add it")
    elif scheme.method == "other" and model.for_transformers and tensor and scheme.stated not in known_words("quantisation-methods"):
        found.fatal(f"transformers does not know the {called} of config.json",
                    "the raw codes would be taken for weights: serve it with the program that it was made for")
    elif scheme.method == "other":
        found.doubtful(f"{called} is not checked here" + (f": {printable(tensor)} and its like" if tensor else ", and no tensor is quantised in a form known here"), TRY)
        if scheme.stated == "torchao" and model.for_transformers:
            _look_at_torchao(model, found)
    elif scheme.method and not tensor and model.is_whole:
        found.add(not model.for_transformers, f"config.json has a {called}, but no tensor is quantised", "remove quantization_config")


def rule_scales(model: Model, found: Findings) -> None:
    """compressed-tensors has one name for the scale of a weight; others two, the first of which goes by the loader and by blocks."""
    if not model.scheme.is_known or not model.scheme.method:
        return
    for name, module in model.modules.items():
        if module.other or not (module.packed or module.has_codes):
            continue
        group = model.scheme.group_of(name)
        wanted = "weight_scale_inv" if not model.scheme.is_compressed and (model.for_transformers or (group and group.block)) else "weight_scale"
        if module.scale is None or (group and group.strategy == "tensor_group" and module.global_scale is None):
            found.of(name, WITHOUT_SCALES, WRITE_AGAIN)
        elif module.scale_name != wanted and (model.scheme.is_compressed or module.scale_name != "scale"):
            found.of(f"{name}.{module.scale_name}", "scales are stored as ", "rename them, or state the quantization_config that they were made for",
                     f", where {model.loader.name} reads {wanted} for quant_method {printable(model.scheme.stated)}")
    for name, tensor in model.tensors.items():
        if name.endswith("_blocks") and tensor.dtype == "U8" and name[:-len("blocks")] + "scales" not in model.tensors:
            found.of(name, WITHOUT_SCALES, WRITE_AGAIN)


def rule_blocks(model: Model, found: Findings) -> None:
    """transformers derives the blocks from the grid of scales; others take them from config.json."""
    for name, module in model.modules.items():
        group, extents = model.scheme.group_of(name), module.extents(model.scheme)
        if not module.scale or not extents or not module.weight or module.packed or not group or not group.block or module.weight.dtype != "F8_E4M3":
            continue
        grid = tuple(-(-extent // block) for extent, block in zip(extents, group.block))
        if module.scale.shape != grid:
            found.of(f"{name} {shape_text(module.scale.shape)}, not {shape_text(grid)}", "scales are not one for each block that quantization_config states: ",
                     "correct weight_block_size, or write the model again")
        elif model.scheme.method == "fp8" and model.for_transformers and any(extent % block and extent > block for extent, block in zip(extents, group.block)):
            found.of(name, "blocks at an edge are partial: ",
                     "transformers would read other blocks, without a word: leave these weights in bf16, or use compressed-tensors' blocks")


def rule_packed(model: Model, found: Findings) -> None:
    """Integers: how many rows and columns there are, and scales for rows or groups of columns."""
    for name, module in model.modules.items():
        group, extents = model.scheme.group_of(name), module.extents(model.scheme)
        if not module.is_quantised or not extents or not group or group.strategy not in ("channel", "group", "tensor_group"):
            continue
        if module.packed and module.packed.dtype == "I32" and name + ".weight_shape" not in model.tensors:
            found.of(name, "packed weights have no weight_shape: ", WRITE_AGAIN)
        size = 0 if group.strategy == "channel" else group.size or 0
        scales = (extents[0], -(-extents[1] // size) if size > 0 else 1)
        if module.scale and module.scale.shape != scales:
            found.of(f"{name} {shape_text(module.scale.shape)}, not {shape_text(scales)}", "scales are not one for each group of columns: ",
                     "correct group_size, or write the model again")


def rule_scalars(model: Model, found: Findings) -> None:
    """compressed-tensors makes parameters of one element where a tensor has one scale; servers take both."""
    parts = tuple(f".{part}" for part in "weight_scale weight_zero_point weight_global_scale input_scale input_zero_point input_global_scale output_scale "
                  "output_zero_point".split())
    for name, tensor in model.tensors.items() if model.scheme.is_compressed else ():
        if not tensor.shape and name.endswith(parts):
            found.of(f"{name} of shape []", "scales have no axis, where compressed-tensors makes parameters of shape [1]: ",
                     "transformers refuses them: store them with the shape [1], or serve the model with vLLM")


def rule_status(model: Model, found: Findings) -> None:
    """What compressed-tensors' status and groups say of what is stored."""
    scheme = model.scheme
    if not scheme.is_compressed:
        return
    if model.for_transformers and scheme.status != "compressed" and _quantised_tensor(model):
        found.fatal('quantization_config does not say quantization_status "compressed"', "the weights would be wrong, without a word: add it")
    for name, module in model.modules.items():
        group = scheme.group_of(name)
        if module.global_scale and group and group.strategy != "tensor_group":
            found.of(name, "weights have a global scale, but quantization_config says no strategy tensor_group: ", "the global scale would be ignored: add it")
        if not module.is_quantised or module.other or scheme.ignores(name):
            continue
        is_misread = group and module.weight and module.has_codes and (group.num_bits != 8 or group.is_float == (module.weight.dtype == "I8"))
        if scheme.is_in_no_group(name):
            found.of(name, "quantised layers belong to no group of quantization_config: ",
                     "the raw codes would be taken for weights: add them to the targets of a group")
        elif is_misread or (group and not group.size and group.strategy in ("group", "tensor_group")):
            found.of(name if is_misread else f"{name} (no group_size)", "num_bits, type or group_size of quantization_config is not that of the stored codes: ",
                     "the weights would be wrong: correct the group's `weights`")


def rule_ignored(model: Model, found: Findings) -> None:
    """compressed-tensors looks for the names of transformers' modules; transformers goes by the scales where there are blocks of fp8. A plain weight is one
    that is quantised where nothing says otherwise if it is of a linear layer as the family has it, else if its like is quantised in other layers. vLLM and
    its kin quantise no head unless its name is a target."""
    scheme, is_exact = model.scheme, model.scheme.is_compressed and model.for_transformers
    if not (scheme.is_compressed or scheme.method == "fp8") or not _quantised_tensor(model):
        return
    kinds = {module.kind for module in model.modules.values() if module.is_quantised}
    for name, module in model.modules.items():
        known = model.family.expected.get(name + ".weight")
        is_meant = model.for_transformers if module.kind == "lm_head" else known.is_linear if known else module.kind in kinds
        is_left = module.kind in ("embed_tokens", "wte", "wpe", "word_embeddings", "embed_in") or scheme.group_of(name) is None or not is_meant
        tree = name
        if is_exact:  # the name in the tree of transformers' modules
            spelled = known.spellings[-1][:-len(".weight")] if known and known.spellings else name
            tree = model.family.name_in_tree(name) if model.family.name_in_tree(name) != name else spelled
        if module.is_quantised and scheme.ignores(name):
            found.of(name, "quantised layers are listed as left alone: ", "remove them from the list of ignored modules")
        elif not module.is_quantised and not is_left and (scheme.is_compressed or not model.for_transformers) and not (
                scheme.ignores_exactly(tree) if is_exact else scheme.ignores(name)):
            found.of(name if tree == name else f"{name} (of the module {tree})", "layers that are not quantised are not listed as such: ",
                     "add them to the list of ignored modules in quantization_config" + (", by the names of transformers' modules, too" if is_exact else ""))


def _experts_of(name: str) -> str:
    """"model.layers.0.mlp.experts." of one expert's projection; "" for other modules."""
    return name[:name.find(".experts.") + len(".experts.")] if ".experts." in name else ""


def rule_experts(model: Model, found: Findings) -> None:
    """All loaders keep the experts of a layer in one tensor."""
    seen: Dict[str, Dict[bool, str]] = {}
    for name, module in model.modules.items():
        layer = seen.setdefault(_experts_of(name), {})
        if _experts_of(name) and layer.setdefault(module.is_quantised, name) == name and len(layer) == 2:
            found.of(f"{layer[False]} (beside {layer[True]})", "experts of one layer are quantised in part: not ", "quantise all experts of a layer, or none")


_FUSED = {"q_proj": ("k_proj", "v_proj"), "gate_proj": ("up_proj",), "q_a_proj": ("kv_a_proj_with_mqa",), "w1": ("w3",)}


def rule_fused(model: Model, found: Findings) -> None:
    """Weights that servers join into one matrix must be quantised all, or none of them."""
    for name, module in model.modules.items():
        others = (model.modules.get(name[:-len(module.kind)] + kind) for kind in _FUSED.get(module.kind, ()))
        if any(other and other.is_quantised != module.is_quantised for other in others):
            found.of(name, "only a part of what is joined into one matrix is quantised: ", "quantise all of them, or none", " and its neighbours")


def rule_expert_scales(model: Model, found: Findings) -> None:
    names = [name for name, module in model.modules.items() if module.global_scale and _experts_of(name)]
    if names and model.scheme.is_known:
        found.fatal(f"experts have global scales, which transformers ignores: {printable(names[0])}",
                    "their values would be wrong, without a word: serve it with vLLM")

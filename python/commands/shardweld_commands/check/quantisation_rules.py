"""quantization_config against the tensors: what loads wrong without a word, and what is refused."""
from typing import Callable, Dict, List, Optional, Tuple

from ..files import object_of, parsed
from ..text import printable, shape_text
from .known import known_words
from .model import Findings, Model, first_of
from .scheme import CODES, Group, Module, kinds_of_quantised
from .tensor_rules import TRY

WRITE_AGAIN = "write the model again, or copy all of its files"


def _quantised_tensor(model: Model) -> str:
    """A tensor that is no plain weight, in whatever encoding; "" for none."""
    for name, tensor in model.tensors.items():
        if (name.endswith("_blocks") and tensor.dtype == "U8") or (name.endswith(("weight", "_proj")) and tensor.dtype in CODES):
            return name
    return next((name for name, module in model.modules.items() if module.is_quantised), "")


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
    parts = [name for name in model.tensors if "._weight_" in name]
    undescribed = [name for name in parts if name.split("._weight_")[1] not in
                   object_of(parsed(model.weights.metadata.get(f"{name.split('._weight_')[0]}.weight", "").encode())).get("_tensor_data_names", ())]
    found.fatal_for(undescribed, "the metadata of the safetensors files do not say of which of torchao's classes weights are: ",
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


def _scale_names(model: Model, group: Optional[Group]) -> Tuple[str, ...]:
    """The names under which the loader looks for the scale of a weight."""
    if model.scheme.is_compressed:
        return ("weight_scale",)
    return ("weight_scale_inv" if model.for_transformers or (group and group.block) else "weight_scale", "scale")


def rule_scales(model: Model, found: Findings) -> None:
    if not model.scheme.is_known or not model.scheme.method:
        return
    alone: List[str] = []
    misnamed: List[str] = []
    wanted = ""
    for name, module in model.modules.items():
        if module.other or not (module.packed or module.has_codes):
            continue
        group = model.scheme.group_of(name)
        names = _scale_names(model, group)
        if module.scale is None or (group and group.strategy == "tensor_group" and module.global_scale is None):
            alone.append(name)
        elif module.scale_name not in names:
            misnamed.append(f"{name}.{module.scale_name}")
            wanted = names[0]
    alone += [name for name, tensor in model.tensors.items()
              if name.endswith("_blocks") and tensor.dtype == "U8" and name[:-len("blocks")] + "scales" not in model.tensors]
    found.fatal_for(alone, "quantised weights have no scales: ", WRITE_AGAIN)
    if misnamed:
        found.fatal(f"scales are stored as {first_of(misnamed)}, where {model.loader.name} reads {wanted} for quant_method {printable(model.scheme.stated)}",
                    "rename them, or state the quantization_config that they were made for")


def rule_blocks(model: Model, found: Findings) -> None:
    """transformers derives the blocks from the grid of scales; others take them from config.json."""
    wrong: List[str] = []
    misread: List[str] = []
    for name, module in model.modules.items():
        group, extents = model.scheme.group_of(name), module.extents(model.scheme)
        if not module.scale or not extents or not module.weight or module.packed or not group or not group.block or module.weight.dtype != "F8_E4M3":
            continue
        grid = tuple(-(-extent // block) for extent, block in zip(extents, group.block))
        if module.scale.shape != grid:
            wrong.append(f"{name} {shape_text(module.scale.shape)}, not {shape_text(grid)}")
        elif any(extent % block and extent > block for extent, block in zip(extents, group.block)):
            misread.append(name)
    found.fatal_for(wrong, "scales are not one for each block that quantization_config states: ", "correct weight_block_size, or write the model again")
    if model.scheme.method == "fp8" and model.for_transformers:
        found.fatal_for(misread, "blocks at an edge are partial: ", "transformers would read other blocks, without a word: leave these weights in bf16, or "
                        "use compressed-tensors' blocks")


def rule_packed(model: Model, found: Findings) -> None:
    """Integers: how many rows and columns there are, and scales for rows or groups of columns."""
    shapeless: List[str] = []
    wrong: List[str] = []
    for name, module in model.modules.items():
        group, extents = model.scheme.group_of(name), module.extents(model.scheme)
        if not module.is_quantised or not extents or not group or group.strategy not in ("channel", "group", "tensor_group"):
            continue
        if module.packed and module.packed.dtype == "I32" and name + ".weight_shape" not in model.tensors:
            shapeless.append(name)
        size = 0 if group.strategy == "channel" else group.size or 0
        scales = (extents[0], -(-extents[1] // size) if size > 0 else 1)
        if module.scale and module.scale.shape != scales:
            wrong.append(f"{name} {shape_text(module.scale.shape)}, not {shape_text(scales)}")
    found.fatal_for(shapeless, "packed weights have no weight_shape: ", WRITE_AGAIN)
    found.fatal_for(wrong, "scales are not one for each group of columns: ", "correct group_size, or write the model again")


def rule_scalars(model: Model, found: Findings) -> None:
    """compressed-tensors makes parameters of one element where a tensor has one scale; servers take both."""
    parts = ("weight_scale", "weight_zero_point", "weight_global_scale", "input_scale", "input_zero_point", "input_global_scale", "output_scale",
             "output_zero_point")
    if model.scheme.is_compressed:
        found.fatal_for([f"{name} of shape []" for name, tensor in model.tensors.items() if not tensor.shape and name.endswith(tuple("." + part for part in parts))],
                        "scales have no axis, where compressed-tensors makes parameters of shape [1]: ",
                        "transformers refuses them: store them with the shape [1], or serve the model with vLLM")


def _look_at_groups(model: Model, found: Findings) -> None:
    """What the groups of compressed-tensors say of what is stored."""
    alone: List[str] = []
    misread: List[str] = []
    for name, module in model.modules.items():
        if not module.is_quantised or module.other or model.scheme.ignores(name):
            continue
        group = model.scheme.group_of(name)
        if model.scheme.is_in_no_group(name):
            alone.append(name)
        elif group and module.weight and module.has_codes and (group.num_bits != 8 or group.is_float == (module.weight.dtype == "I8")):
            misread.append(name)
        elif group and not group.size and group.strategy in ("group", "tensor_group"):
            misread.append(name + " (no group_size)")
    found.fatal_for(alone, "quantised layers belong to no group of quantization_config: ",
                    "the raw codes would be taken for weights: add them to the targets of a group")
    found.fatal_for(misread, "num_bits, type or group_size of quantization_config is not that of the stored codes: ",
                    "the weights would be wrong: correct the group's `weights`")


def rule_status(model: Model, found: Findings) -> None:
    if not model.scheme.is_compressed:
        return
    if model.for_transformers and model.scheme.status != "compressed" and _quantised_tensor(model):
        found.fatal('quantization_config does not say quantization_status "compressed"', "the weights would be wrong, without a word: add it")
    _look_at_groups(model, found)
    groups = ((name, module, model.scheme.group_of(name)) for name, module in model.modules.items())
    found.fatal_for([name for name, module, group in groups if module.global_scale and group and group.strategy != "tensor_group"],
                    "weights have a global scale, but quantization_config says no strategy tensor_group: ", "the global scale would be ignored: add it")


def _is_meant(model: Model, quantised_kinds: Callable[[str], bool], module: Module) -> bool:
    """Whether a plain weight is one that is quantised where nothing says otherwise: of a linear layer as the family has it, else one whose like is
    quantised in other layers. vLLM and its kin quantise no head unless its name is a target."""
    known = model.family.expected.get(module.name + ".weight")
    is_linear = known.is_linear if known else quantised_kinds(module.kind)
    if module.kind in ("embed_tokens", "wte", "wpe", "word_embeddings", "embed_in") or model.scheme.group_of(module.name) is None:
        return False
    return model.for_transformers if module.kind == "lm_head" else is_linear


def rule_ignored(model: Model, found: Findings) -> None:
    """compressed-tensors looks for the names of transformers' modules; transformers goes by the scales where there are blocks of fp8."""
    scheme, is_exact = model.scheme, model.scheme.is_compressed and model.for_transformers
    if not (scheme.is_compressed or scheme.method == "fp8") or not _quantised_tensor(model):
        return
    kinds = kinds_of_quantised(list(model.modules.values()))
    unlisted: List[str] = []
    listed_too: List[str] = []
    for name, module in model.modules.items():
        if module.is_quantised:
            listed_too += [name] if scheme.ignores(name) else ()
            continue
        tree = _name_of_module(model, name) if is_exact else name
        if not (scheme.ignores_exactly(tree) if is_exact else scheme.ignores(name)) and _is_meant(model, kinds.__contains__, module):
            unlisted.append(name if tree == name else f"{name} (of the module {tree})")
    if scheme.is_compressed or not model.for_transformers:
        found.fatal_for(unlisted, "layers that are not quantised are not listed as such: ", "add them to the list of ignored modules in quantization_config" +
                        (", by the names of transformers' modules, too" if is_exact else ""))
    found.fatal_for(listed_too, "quantised layers are listed as left alone: ", "remove them from the list of ignored modules")


def _name_of_module(model: Model, name: str) -> str:
    """In the tree of transformers' modules."""
    known = model.family.expected.get(name + ".weight")
    spelled = known.spellings[-1][:-len(".weight")] if known and known.spellings else ""
    return model.family.name_in_tree(name) if model.family.name_in_tree(name) != name else spelled or name


def _experts_of(name: str) -> str:
    """"model.layers.0.mlp.experts." of one expert's projection; "" for other modules."""
    return name[:name.find(".experts.") + len(".experts.")] if ".experts." in name else ""


def rule_experts(model: Model, found: Findings) -> None:
    """All loaders keep the experts of a layer in one tensor."""
    seen: Dict[str, Dict[bool, str]] = {}
    mixed: List[str] = []
    for name, module in model.modules.items():
        layer = seen.setdefault(_experts_of(name), {})
        if _experts_of(name) and module.is_quantised not in layer:
            layer[module.is_quantised] = name
            mixed += [f"{layer[False]} (beside {layer[True]})"] if len(layer) == 2 else ()
    found.fatal_for(mixed, "experts of one layer are quantised in part: not ", "quantise all experts of a layer, or none")


_FUSED = {"q_proj": ("k_proj", "v_proj"), "gate_proj": ("up_proj",), "q_a_proj": ("kv_a_proj_with_mqa",), "w1": ("w3",)}


def rule_fused(model: Model, found: Findings) -> None:
    """Weights that servers join into one matrix must be quantised all, or none of them."""
    mixed: List[str] = []
    for name, module in model.modules.items():
        others = (model.modules.get(name[:-len(module.kind)] + kind) for kind in _FUSED.get(module.kind, ()))
        mixed += [name] if any(other and other.is_quantised != module.is_quantised for other in others) else ()
    if mixed:
        found.fatal(f"only a part of what is joined into one matrix is quantised: {first_of(mixed)} and its neighbours", "quantise all of them, or none")


def rule_expert_scales(model: Model, found: Findings) -> None:
    names = [name for name, module in model.modules.items() if module.global_scale and _experts_of(name)]
    if names and model.scheme.is_known:
        found.fatal(f"experts have global scales, which transformers ignores: {printable(names[0])}",
                    "their values would be wrong, without a word: serve it with vLLM")

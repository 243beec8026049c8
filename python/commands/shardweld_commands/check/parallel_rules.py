"""What must divide by the number of devices.

Sources: vLLM config/model.py (verify_with_parallel_config), model_executor/layers/linear.py (QKVParallelLinear, MergedColumnParallelLinear,
RowParallelLinear), layers/quantization/utils/fp8_utils.py (validate_fp8_block_shape); SGLang's files of the same names.
"""
from typing import Tuple

from .model import Findings, Model
from .names import is_of_tower
from .scheme import Module

# How each projection is cut over devices.
_CUTS = {"rows": "q_proj gate_proj up_proj gate_up_proj w1 w3 q_b_proj kv_b_proj", "key_rows": "k_proj v_proj", "columns": "o_proj down_proj w2"}
_CUT_OF = {name: cut for cut, names in _CUTS.items() for name in names.split()}


def _share_of(model: Model, module: Module, extents: Tuple[int, int]) -> Tuple[int, int, int]:
    """The extent that is cut, over how many devices, and what a device's part must be a multiple of."""
    cut, parts, keys = _CUT_OF[module.kind], model.tp, model.number("num_key_value_heads") or 0
    if cut == "key_rows" and keys > 0:
        parts = min(keys, parts)  # fewer heads of keys than devices are repeated
    group = model.scheme.group_of(module.name)
    # Columns that stay whole may end in a part of a block.
    if not group or not module.is_quantised or (cut == "columns" and parts == 1):
        return extents[cut == "columns"], parts, 1
    block = group.block[cut == "columns"] if group.block else group.size if cut == "columns" else None
    return extents[cut == "columns"], parts, max(block or 1, 1)


def rule_heads(model: Model, found: Findings) -> None:
    tp, queries, keys = model.tp, model.number("num_attention_heads") or 0, model.number("num_key_value_heads") or 0
    if queries > 0 and queries % tp:
        found.fatal(f"{queries} attention heads do not divide by {tp} devices", "choose a --tp that divides the heads, and more stages (--pp)")
    if keys > 0 and keys % tp and tp % keys:
        found.fatal(f"{keys} heads of keys and values neither divide by {tp} devices nor fit them a whole number of times", "choose another --tp")


def rule_extents(model: Model, found: Findings) -> None:
    hint, cut = "choose another --tp, or expert parallelism for experts", ""
    for name, module in model.modules.items():
        extents = module.extents(model.scheme)
        if module.kind not in _CUT_OF or not extents or is_of_tower(name):  # towers are repeated on each device
            continue
        whole, parts, block = _share_of(model, module, extents)
        if whole % parts:
            found.of(name, f"weights do not divide by {model.tp} devices: ", hint)
        elif whole // parts % block:
            cut = cut or f"a device would get {whole // parts} of {whole}, which cuts blocks of {block} that share a scale: "
            found.of(name, cut, hint)


def rule_stages(model: Model, found: Findings) -> None:
    layers = model.number("num_hidden_layers")
    if layers is not None and model.pp > layers:
        found.fatal(f"{layers} layers cannot fill {model.pp} stages", "choose a smaller --pp")

"""Small models of transformers' own classes: of a type's configuration with small sizes, and of the same with one switch the other way."""
import copy
import functools
import json
import re
from pathlib import Path

import torch
import transformers
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import PrefixChange
from transformers.models.auto import modeling_auto

LAST = ["FOR_BACKBONE_", "FOR_PRETRAINING_", "FOR_TEXT_ENCODING_", ""]
HEADS = ["IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "CAUSAL_LM", "MASKED_LM"]
BIGGEST = 250_000_000
LAYERS = 4
# small_models.json: "sizes", by which fields are small; "settings" of configurations that make no model so. Lists of kinds of layers are shortened so that
# each kind is among the first.
TOLD = json.loads(Path(__file__).with_name("small_models.json").read_text(encoding="utf-8"))
SMALL = {field: int(size) for size, fields in TOLD["sizes"].items() for field in fields.split()}
SETTINGS = TOLD["settings"]

TIED, MOST_OTHERS = "tie_word_embeddings", 8
# Switches of a configuration that no part of a model depends on, and fields that are one: without and with a part.
IDLE = re.compile("_|output_|use_cache|return_|torchscript|is_|add_cross|chunk|gradient|initializer|scale_|problem|tokenizer|disable_|use_return|norm_topk|do_")
OPTIONAL = {
    **dict.fromkeys("num_nextn_predict_layers num_mtp_layers mtp_num_hidden_layers n_shared_experts num_shared_experts first_k_dense_replace".split(), (0, 1)),
    **dict.fromkeys("num_experts n_routed_experts num_local_experts".split(), (0, 4)),
    "q_lora_rank": (None, 24),
}


class Refused(Exception):
    """Why a type has no recipe."""


def mappings():
    """transformers' own tables of classes by type: language models first, then other heads, what has none last."""
    tables = sorted(name for name in dir(modeling_auto) if re.fullmatch("MODEL_(FOR_.*_)?MAPPING_NAMES", name))
    first = [f"MODEL_FOR_{head}_MAPPING_NAMES" for head in HEADS]
    last = [f"MODEL_{head}MAPPING_NAMES" for head in LAST]
    return [getattr(modeling_auto, name) for name in [*first, *(one for one in tables if one not in first + last), *last] if name in tables]


def class_of(model_type):
    found = next((names[model_type] for names in mappings() if model_type in names), None)
    if found is None:
        raise Refused(f"transformers {transformers.__version__} has no class of this type")
    return found if isinstance(found, str) else found[0]


def shrink(config):
    fields = config.__dict__
    for key, value in list(fields.items()):
        if isinstance(value, transformers.PretrainedConfig):
            shrink(value)
        elif key in SMALL and isinstance(value, int) and not isinstance(value, bool):
            fields[key] = SMALL[key]
        elif isinstance(value, list) and re.search(r"layer_types?$|layers_block_type$", key) and len(value) > LAYERS:
            fields[key] = (list(dict.fromkeys(value)) + value)[:LAYERS]
        elif key in ("rope_parameters", "rope_scaling") and isinstance(value, dict) and "mrope_section" in value:
            value["mrope_section"] = [2, 3, 3]


def configured(model_type):
    """The type's configuration with small sizes."""
    config = transformers.AutoConfig.for_model(model_type)
    shrink(config)
    for path, value in SETTINGS.get(model_type, {}).items():
        *above, last = path.split(".")
        setattr(part_of(config, above), last, value)
    return config


def part_of(config, path):
    return functools.reduce(getattr, path, config)


def hidden(name):
    """A name without its numbers, and these."""
    parts = name.split(".")
    return tuple("#" if part.isdigit() else part for part in parts), tuple(int(part) for part in parts if part.isdigit())


def without_memory(name, config):
    with torch.device("meta"):
        return getattr(transformers, name)(copy.deepcopy(config))


def switched(config, path=()):
    """Each switch in a configuration, "text_config.use_bias", and the configuration with it the other way."""
    for key, value in list(vars(part_of(config, path)).items()):
        if isinstance(value, transformers.PretrainedConfig):
            yield from switched(config, (*path, key))
        elif key in OPTIONAL or (isinstance(value, bool) and not IDLE.match(key)):
            other = copy.deepcopy(config)
            try:
                setattr(part_of(other, path), key, not value if isinstance(value, bool) else OPTIONAL[key][0 if value else 1])
                read = type(other).from_dict(other.to_dict())
            except Exception:  # noqa: BLE001: it takes no other value
                continue
            if getattr(part_of(read, path), key) == value:
                continue  # another field decides
            yield ".".join((*path, key)), other


def variants(model_type):
    """Configurations whose models together have all kinds of names, each with what is other than usual: the small one, that with a head tied otherwise, and
    where saving changes names those with a switch that gives others."""
    name = class_of(model_type)
    config = configured(model_type)
    model = without_memory(name, config)
    size = sum(one.numel() for one in model.parameters())
    if size > BIGGEST:
        raise Refused(f"the smallest model has {size // 1_000_000} million weights")
    yield "", config
    changes = any(not isinstance(one, PrefixChange) for one in get_model_conversion_mapping(model, add_legacy=False))
    seen, n_others = {hidden(one)[0] for one in model.state_dict()}, 0
    for switch, other in switched(config):
        if switch != TIED and (not changes or n_others == MOST_OTHERS or size > BIGGEST / 4):
            continue
        try:
            names = {hidden(one)[0] for one in without_memory(name, other).state_dict()}
        except Exception:  # noqa: BLE001: no model is so
            continue
        if switch == TIED or names - seen:
            n_others += switch != TIED
            seen |= names
            yield switch, other


def filled_model(model_type, config):
    """With random values."""
    torch.manual_seed(5)
    model = getattr(transformers, class_of(model_type))(copy.deepcopy(config)).to(torch.bfloat16).eval()
    with torch.no_grad():
        for one in model.parameters():
            one.copy_(torch.randn(one.shape).to(one.dtype))
    return model

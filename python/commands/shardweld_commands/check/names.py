"""Which of the tensors that a family has are stored, whatever they are called and encoded as, and what names tell by themselves.

Sources: transformers 5.24 core_model_loading (rename_source_key), run; torch 2.15, fairscale 0.4, lightning 2.6, trl 0.26 for wrappers; configs on the
Hub and the drafters of vLLM, SGLang and llama.cpp for layers that predict further tokens.
"""
import re
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from .model import Expected, Model
from .scheme import CODES, is_part_of_codes

HEAD, EMBEDDING = "head", "embed"  # logical names

# Fields that count layers which predict further tokens (MTP): a model without them is whole, but servers that are told of them fail to start.
PREDICTION_FIELDS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "mtp_num_layers", "num_mtp_modules", "num_mtp_heads",
                     "mtp_depth", "n_predict", "num_nextn_layers", "mtp_layers", "num_mtp")
# Parts of a model beside its language model: the field that promises one, what people call it, and a word in the name of each of its tensors.
TOWERS = {"vision_config": ("vision tower", re.compile("vis|vit|image|img")), "audio_config": ("audio tower", re.compile("audio|speech|wav|sound"))}


def is_of_tower(name: str) -> bool:
    return any(words.search(name) for _, words in TOWERS.values())


def _is_of_prediction(part: str) -> bool:
    return part in ("mtp", "eh_proj") or part.startswith(("mtp_", "nextn"))


def predicts_further_tokens(name: str) -> bool:
    """Whether a part of the name says that the tensor belongs to such a layer. Some families give them the numbers behind the stack's instead."""
    return any(map(_is_of_prediction, name.split(".")))


def is_number(part: str) -> bool:
    return part.isascii() and part.isdigit() and len(part) < 19


def stack_layer_of(name: str) -> Optional[int]:
    """The number of the language model's layer that a tensor belongs to; None for all others, such as layers of towers."""
    parts = name.split(".")
    for part, following in zip(parts, parts[1:]):
        if "encoder" in part or is_of_tower(part) or _is_of_prediction(part):
            return None
        if part in ("layers", "h", "blocks", "block") and is_number(following):
            return int(following)
    return None


def digits_hidden(name: str) -> str:
    return re.sub("[0-9]+", "#", name)


def is_computed(name: str) -> bool:
    """What loaders make themselves, or no longer read."""
    return name.endswith(("rotary_emb.inv_freq", ".attn.bias", ".masked_bias", "position_ids", "num_batches_tracked", ".attention.bias"))


def is_of_adapter(name: str) -> bool:
    """A name that PEFT gives: of a base layer, a factor of an adapter, or anything behind its prefix."""
    parts = (".lora_A.", ".lora_B.", ".lora_embedding_", ".lora_magnitude_vector", ".base_layer.", ".modules_to_save.")
    return name.startswith("base_model.model.") or any(part in name for part in parts)


_WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_fpw_module", "_forward_module")  # anywhere in a name
# In front of all names only; the last are what the parts of a trainer are called.
_LEADING = ("module", "pretrained_model", "state_dict", "model_state_dict", "model_state", "actor", "policy", "critic", "student", "network")


def wrapper_in(model: Model) -> str:
    """A component that a training framework's wrapper adds, or that all names begin with; "" for none."""
    for word in _WRAPPERS:
        if any(name.startswith(word + ".") or f".{word}." in name for name in model.tensors):
            return word + "."
    first = next(iter(model.tensors), "").split(".")[0]
    return first + "." if first in _LEADING and all(name.startswith(first + ".") for name in model.tensors) else ""


# Where the family's tensors are.

class Place(NamedTuple):
    """Where a tensor of the family is stored."""
    name: str = ""  # "": nowhere
    shape: Optional[Tuple[int, ...]] = None  # None: of an encoding whose shape is checked elsewhere
    is_other: bool = False  # under a name that servers may not know


def _base_of(expected: Dict[str, Expected]) -> str:
    """"model." of the names of most families' layers, or of their embedding."""
    base = ""
    for name, tensor in expected.items():
        if tensor.logical.startswith("layer.") or tensor.logical == EMBEDDING:
            for one in (*tensor.spellings, name):
                part = one[:one.find(".") + 1]
                if part == "model.":
                    return part
                if not base and part not in ("layers.", "h.", "encoder.", "language_model.", "thinker."):
                    base = part
    return base


def name_in_tree(base: str, name: str, tensor: Expected) -> str:
    """The name in the tree of modules: of the spellings the last one, if the base is in front of it."""
    for one in reversed(tensor.spellings):
        if one.startswith(base):
            return one
    return name if name.startswith(base) or not tensor.spellings else tensor.spellings[-1]


class Places:
    """Finds the tensors of a family by all names that the loader's own renamings know."""

    def __init__(self, model: Model) -> None:
        expected = model.family.expected
        self.model, self.base = model, _base_of(expected)
        self.takes_base = self.base != "" and (model.for_transformers or not model.is_language_model)  # names without it, or with it twice
        # The tree has something more behind the base than names on the Hub have ("model.language_model.layers." of "model.layers.").
        trees = ((name, name_in_tree(self.base, name, tensor)) for name, tensor in expected.items() if name.startswith(self.base))
        self.has_more = any(len(tree) > len(name) and tree.endswith(name[len(self.base):]) for name, tree in trees)
        codes = filter(is_part_of_codes, model.tensors if model.scheme.method == "other" else ())
        self.stems = {name[:end.start()] for name in codes for end in re.finditer("[._]", name)}
        self.known: Set[str] = {one for name, tensor in expected.items() for one in self._names_of(name, tensor)}
        self.known.update(one for parts in model.family.module_parts.values() for names in parts for one in names)

    def _names_of(self, name: str, tensor: Expected) -> List[str]:
        names = [name, *tensor.spellings]
        if not self.takes_base:
            return names
        base, tree = self.base, name_in_tree(self.base, name, tensor)
        if tree.startswith(base):
            names.append(tree[len(base):])
        if name.startswith(base) and not self.has_more:  # rules for what lies behind the base rename these otherwise, or not at all
            names.append(name[len(base):])
        if tree.startswith(base) or not self.has_more:
            names.append(base + tree)
        if name.startswith(base) or tensor.logical != HEAD:  # a head's other name is renamed only where nothing is in front of it
            names.append(base + name)
        return names

    def _has_parts_of(self, name: str) -> bool:
        """Whether all of it, whatever its encoding, lies below or beside the name."""
        stem = name[:-len(".weight")] if name.endswith(".weight") else name
        module = self.model.modules.get(stem)
        if (module is not None and (module.packed is not None or module.other)) or name + "_blocks" in self.model.tensors:
            return True
        return stem in self.stems

    def at(self, name: str) -> Place:
        stored = self.model.tensors.get(name)
        if stored is None:
            return Place(name) if self._has_parts_of(name) else Place()
        # Codes of 8 bits have the weight's own shape in these encodings only.
        is_plain = stored.dtype not in CODES or stored.dtype in ("F8_E4M3", "F8_E5M2") or (stored.dtype == "I8" and self.model.scheme.is_compressed)
        is_word = stored.dtype == "U32" and name[:-len("weight")] + "scales" in self.model.tensors  # mlx-lm
        return Place(name, stored.shape if is_plain and not is_word else None)

    def of(self, name: str, tensor: Expected) -> Place:
        for one in self._names_of(name, tensor):
            place = self.at(one)
            if place.name:
                return place._replace(is_other=one != name and not self.model.for_transformers)
        parts = self.model.family.module_parts.get(tensor.logical)
        if parts and all(any(self.at(one).name for one in names) for names in parts):
            return Place(parts[0][0], None, not self.model.for_transformers)  # transformers keeps them as one
        return Place()


def places_of(model: Model) -> Places:
    """Made once for a model."""
    if not isinstance(model.places, Places):
        model.places = Places(model)
    return model.places


def is_tied(model: Model) -> Optional[bool]:
    """Whether head and embedding are one; a family knows what config.json means where it says nothing."""
    if model.family.is_whole:
        return not model.family.name_of(HEAD)
    ties = model.field("tie_word_embeddings")
    return ties if isinstance(ties, bool) else None


def stored_head(model: Model) -> str:
    name = model.family.name_of(HEAD)
    return places_of(model).of(name, model.family.expected[name]).name if name else model.ending_in("lm_head.weight", "embed_out.weight")


def rows_of_embedding(model: Model) -> Tuple[str, Optional[int]]:
    """The embedding's name, and how many rows it has; None where that is not seen."""
    name = model.family.name_of(EMBEDDING)
    if name:
        place = places_of(model).of(name, model.family.expected[name])
        return place.name, place.shape[0] if place.shape else None
    found = model.ending_in("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight", "embed.weight")
    return found, model.tensors[found].shape[0] if found and model.tensors[found].shape else None


# For people.

def prefix_before(model: Model, name: str) -> str:
    """"model.layers." where `name` is stored behind it: what all names have in front."""
    return next((stored[:-len(name)] for stored in model.tensors if len(stored) > len(name) + 1 and stored.endswith("." + name)), "")


def nearest_to(model: Model, name: str) -> str:
    """The stored name that shares the longest end with `name`, by components; "" for none."""
    parts = name.split(".")[::-1]
    nearest, longest = "", len(parts[0])
    for stored in model.tensors:
        length = -1
        for one, other in zip(stored.split(".")[::-1], parts):
            if one != other:
                break
            length += len(one) + 1
        if length > longest:
            nearest, longest = stored, length
    return nearest

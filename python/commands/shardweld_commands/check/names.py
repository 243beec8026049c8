"""Which of the tensors that a family has are stored, whatever they are called and encoded as, and what names tell by themselves.

Sources: transformers 5.24 core_model_loading (rename_source_key), run; torch 2.15, fairscale 0.4, lightning 2.6, trl 0.26 for wrappers; configs on the
Hub and the drafters of vLLM, SGLang and llama.cpp for layers that predict further tokens.
"""
import collections
import functools
import os
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from ..text import printable
from .known import facts
from .model import Expected, Model, Shape, ends_in
from .scheme import CODES, is_part_of_codes

HEAD, EMBEDDING = "head", "embed"  # logical names

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


def numbers_hidden(name: str) -> str:
    """"layers.#.w1" of "layers.3.w1"."""
    return ".".join("#" if is_number(part) else part for part in name.split("."))


def lacking(stack: str, layers: Dict[int, Set[str]], enough: float = 0) -> Iterator[str]:
    """Layers of one kind have the same tensors: one whose tensors are a part of those that enough others have is not of another kind, but lacks the rest."""
    kinds = collections.Counter(tuple(sorted(parts)) for parts in layers.values())
    usual = sorted((kind for kind, count in kinds.items() if count >= enough), key=lambda kind: (-len(kind), kind))
    for number, parts in sorted(layers.items()):
        more = next((kind for kind in usual if parts < set(kind)), ())
        yield from (f"{stack}{number}.{part}" for part in more if part not in parts)


def is_computed(name: str) -> bool:
    """What loaders make themselves, or no longer read."""
    return name.endswith(("rotary_emb.inv_freq", ".attn.bias", ".masked_bias", "position_ids", "num_batches_tracked", ".attention.bias"))


def is_of_adapter(name: str) -> bool:
    """A name that PEFT gives: of a base layer, a factor of an adapter, or anything behind its prefix."""
    parts = (".lora_A.", ".lora_B.", ".lora_embedding_", ".lora_magnitude_vector", ".base_layer.", ".modules_to_save.")
    return name.startswith("base_model.model.") or any(part in name for part in parts)


def wrapper_in(model: Model) -> str:
    """A component that a training framework's wrapper adds anywhere in a name, or one of those that all names begin with; "" for none."""
    for word in facts("wrappers"):
        if any(name.startswith(word + ".") or f".{word}." in name for name in model.tensors):
            return word + "."
    first = next(iter(model.tensors), "").split(".")[0]
    return first + "." if first in facts("leading-wrappers") and all(name.startswith(first + ".") for name in model.tensors) else ""


# Where the family's tensors are.

class Place(NamedTuple):
    """Where a tensor of the family is stored."""
    name: str = ""  # "": nowhere
    shape: Optional[Shape] = None  # None: of an encoding whose shape is checked elsewhere
    is_other: bool = False  # under a name that servers may not know


class Places:
    """Finds the tensors of a family by all names that the loader's own renamings know. `base`: "model." of the names of most families' layers, or of their
    embedding."""

    def __init__(self, model: Model) -> None:
        expected = model.family.expected
        fronts = [one[:one.find(".") + 1] for name, tensor in expected.items() if tensor.logical.startswith("layer.") or tensor.logical == EMBEDDING
                  for one in (*tensor.spellings, name)]
        others = (front for front in fronts if front not in ("", "layers.", "h.", "encoder.", "language_model.", "thinker."))
        self.model, self.base = model, "model." if "model." in fronts else next(others, "")
        self.takes_base = self.base != "" and (model.for_transformers or not model.is_language_model)  # names without it, or with it twice
        # The tree has something more behind the base than names on the Hub have ("model.language_model.layers." of "model.layers.").
        trees = ((name, self._name_in_tree(name, tensor)) for name, tensor in expected.items() if name.startswith(self.base))
        self.has_more = any(len(tree) > len(name) and tree.endswith(name[len(self.base):]) for name, tree in trees)
        codes = filter(is_part_of_codes, model.tensors if model.scheme.method == "other" else ())
        self.stems = {name[:end.start()] for name in codes for end in re.finditer("[._]", name)}
        self.known: Set[str] = {one for name, tensor in expected.items() for one in self._names_of(name, tensor)}
        self.known.update(one for parts in model.family.module_parts.values() for names in parts for one in names)

    def _name_in_tree(self, name: str, tensor: Expected) -> str:
        """The name in the tree of modules: of the spellings the last one, if the base is in front of it."""
        spelled = next((one for one in reversed(tensor.spellings) if one.startswith(self.base)), "")
        return spelled or (name if name.startswith(self.base) or not tensor.spellings else tensor.spellings[-1])

    def _names_of(self, name: str, tensor: Expected) -> List[str]:
        names = [name, *tensor.spellings]
        if self.takes_base:
            base, tree = self.base, self._name_in_tree(name, tensor)
            names += [tree[len(base):]] if tree.startswith(base) else ()
            # Rules for what lies behind the base rename these otherwise, or not at all.
            names += [name[len(base):]] if name.startswith(base) and not self.has_more else ()
            names += [base + tree] if tree.startswith(base) or not self.has_more else ()
            # A head's other name is renamed only where nothing is in front of it.
            names += [base + name] if name.startswith(base) or tensor.logical != HEAD else ()
        return names

    def at(self, name: str) -> Place:
        """Where that name is stored; all of it, whatever its encoding, may lie below or beside the name."""
        stem, stored = name[:-len(".weight")] if name.endswith(".weight") else name, self.model.tensors.get(name)
        if stored is None:
            module = self.model.modules.get(stem)
            is_there = stem in self.stems or name + "_blocks" in self.model.tensors or (module and (module.packed or module.other))
            return Place(name) if is_there else Place()
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


places_of = functools.lru_cache(maxsize=1)(Places)


def _place_of(model: Model, logical: str, *endings: str) -> Place:
    """Of a tensor that is one of the family's, else of one that a name ends in."""
    name = next((name for name, tensor in model.family.expected.items() if tensor.logical == logical), "")
    found = "" if name else ends_in(model.tensors, *endings)
    return places_of(model).of(name, model.family.expected[name]) if name else Place(found, model.tensors[found].shape if found else None)


def is_tied(model: Model) -> Optional[bool]:
    """Whether head and embedding are one; a family knows what config.json means where it says nothing."""
    if model.family.is_whole:
        return all(tensor.logical != HEAD for tensor in model.family.expected.values())
    ties = model.field("tie_word_embeddings")
    return ties if isinstance(ties, bool) else None


def stored_head(model: Model) -> str:
    return _place_of(model, HEAD, "lm_head.weight", "embed_out.weight").name


def rows_of_embedding(model: Model) -> Tuple[str, Optional[int]]:
    """The embedding's name, and how many rows it has; None where that is not seen."""
    place = _place_of(model, EMBEDDING, "embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight", "embed.weight")
    return place.name, place.shape[0] if place.shape else None


# For people.

def whereabouts(model: Model, name: str) -> str:
    """Where a missing tensor may be stored instead: behind "model.layers.", or as the name that shares the longest end with it, by components."""
    prefix = next((stored[:-len(name)] for stored in model.tensors if len(stored) > len(name) + 1 and stored.endswith("." + name)), "")
    if prefix:
        return f" (stored behind {printable(prefix)})"
    parts = name.split(".")[::-1]
    shared = {stored: os.path.commonprefix([stored.split(".")[::-1], parts]) for stored in model.tensors}
    nearest = max(shared, key=lambda stored: len(".".join(shared[stored])), default="")
    return f" (the nearest that is stored is {printable(nearest)})" if nearest and len(shared[nearest]) > 1 else ""

"""Which model types, classes and architectures loaders know, and what kinds of values transformers' configurations take.

known.txt and gguf.txt are written by scripts/known-names.py, nulls.txt by scripts/known-nulls.py; facts.txt by hand ("|" between alternatives, "=" before what
belongs to a word), fields.txt of the annotations of all
configurations of transformers 5.24, which refuse all else (StrictDataclassFieldValidationError, run). transformers' own types come from the program (recipes --config).

Of GGUF: "shaped" are families of plain decoders and MLA, whose layers are gated and have both norms; "plain", too, have blocks with attention and a
feed-forward part; layers of "uneven" ones may lack what others have. "needed": of what the layers of plain decoders have one each; "together": what comes
with any of others; "extents": by numbers of the metadata, or by what is made of them. "tower-companies": what stands beside a part of a layer in every tower
that has it, by the last words of names; of the biased ones, biases, too. "rope-forms": what each form needs; those "of some" in loaders that say so; deepseek_yarn is
computed by code of models' own (Sarvam).
"""
import functools
import math
import re
from pathlib import Path
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, Tuple

from ..files import is_whole, object_of


@functools.lru_cache(maxsize=None)
def _rows(file: str) -> Dict[str, List[str]]:
    """The words behind each "key:" of a file."""
    found: Dict[str, List[str]] = {}
    for word in Path(__file__).with_name(file).read_text(encoding="utf-8").split():
        if word.endswith(":"):
            words = found.setdefault(word[:-1], [])
        else:
            words.append(word)
    return found


@functools.lru_cache(maxsize=None)
def _key_of_words(file: str) -> Dict[str, str]:
    return {word: key for key, words in _rows(file).items() for word in words}


def facts(key: str) -> List[str]:
    return _rows("facts.txt").get(key, [])


@functools.lru_cache(maxsize=None)
def known_words(key: str) -> FrozenSet[str]:
    return frozenset(_rows("known.txt").get(key) or facts(key))


def gguf_tensors(architecture: str) -> FrozenSet[str]:
    """Names without ".weight" and the like, "#" for the number of a layer; empty: not known."""
    return frozenset(word for key, words in _rows("gguf.txt").items() if architecture in key.split(",") for word in words)


_KINDS = {"b": "true or false", "i": "a whole number", "f": "a number with a point", "s": "a text", "l": "a list", "d": "an object", "n": "null"}


def taken_instead(model_type: str, field: str, value: Any) -> str:
    """What a field takes, where `value` is nothing that any configuration takes for it; "" for values that are taken and fields that are not known."""
    kinds = _key_of_words("fields.txt").get(field, "")
    letter = _key_of_words("nulls.txt").get("=" + field, "")
    if value is None and letter and letter in _key_of_words("nulls.txt").get(model_type, ""):  # this model type refuses null
        kinds = kinds.replace("n", "")
    own = "n" if value is None else "b" if isinstance(value, bool) else "i" if is_whole(value) else "f" if isinstance(value, float) or "__float__" in object_of(value) \
        else "d" if isinstance(value, dict) else "s" if isinstance(value, str) else "l"  # __float__: as transformers writes infinities
    is_good = own in kinds and not (field.endswith("_token_id") and isinstance(value, list) and not all(map(is_whole, value)))
    return "" if is_good or not kinds else ", or ".join(text for kind, text in _KINDS.items() if kind in kinds)


def nonfinite_in(value: Any, path: Tuple[str, ...] = ()) -> Iterator[Tuple[Tuple[str, ...], float]]:
    """All numbers that JSON has not, and where they are."""
    if isinstance(value, float) and not math.isfinite(value):
        yield path, value
    items: Iterable[Any] = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield from nonfinite_in(one, (*path, str(key)))


def plain(word: str) -> str:
    """"qwen3_moe" and "Qwen3Moe" as "qwen3moe"."""
    return re.sub("[^a-z0-9]", "", word.lower())


def without_head(name: str) -> str:
    """"Qwen3MoeForCausalLM" as "Qwen3Moe"."""
    for_head = re.search(r"For[A-Z]", name)
    return name[:for_head.start()] if for_head else re.sub(r"(LMHeadModel|DoubleHeadsModel|ChatModel|Model)$", "", name)

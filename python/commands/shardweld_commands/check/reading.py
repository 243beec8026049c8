"""Reading a model directory as the program that loads it meets it: no tensor data, no code of the model. Failed ends the command where a file that the
loader reads is no regular one, or cannot be read."""
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Set

from ..files import MIB, failed, is_whole, list_of, object_of, opened, parsed, read_bytes, text_of
from ..headers import LONGEST_INDEX, GgufFile, Stored, WeightFile, WeightIndex, gguf_file, weight_file, weight_index

_LONGEST_CONFIG, _LONGEST_SIDE_FILE, _LONGEST_TOKENIZER = 16 * MIB, 64 * MIB, 256 * MIB
_LOOK, _LOOKS = 1 << 16, 256  # bytes that are compared at once, and how often
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model", "tekken.json")
_MOST_TOKENS = 1 << 24  # more than any vocabulary has: a larger number is not a token's


# The tokenizer.

@dataclass
class Tokenizer:
    is_there: bool = False
    fault: str = ""                  # of one of its files
    n_tokens: Optional[int] = None   # its largest number, and one; None: unknown
    config: Dict[str, Any] = field(default_factory=dict)  # tokenizer_config.json
    eos: str = ""                    # the token that ends a text, as the files name it
    eos_number: Optional[int] = None


def _is_token(value: Any) -> bool:
    return is_whole(value) and 0 <= value < _MOST_TOKENS


def _added_in(root: Any) -> Dict[int, Dict[str, Any]]:
    """Tokens of added_tokens_decoder, by number."""
    return {int(key): object_of(one) for key, one in object_of(object_of(root).get("added_tokens_decoder")).items() if key.isdecimal() and len(key) < 9}


def _numbers_in(name: str, root: Any) -> List[Any]:
    """All numbers of tokens that a file names."""
    if name in ("vocab.json", "added_tokens.json"):
        return list(object_of(root).values())
    words = object_of(object_of(root).get("model")).get("vocab")
    numbers: List[Any] = list(words.values()) if isinstance(words, dict) else []
    if isinstance(words, list):  # Unigram: [token, score] in the order of numbers
        numbers += [at if isinstance(word, list) else word for at, word in enumerate(words)]
    return numbers + list(_added_in(root)) + [object_of(entry).get("id") for entry in list_of(object_of(root).get("added_tokens"))]


def _content(value: Any) -> str:
    return text_of(value.get("content") if isinstance(value, dict) else value)


def _number_of(token: str, config: Dict[str, Any], words: Dict[str, Any]) -> Optional[int]:
    """The number of a token that files name by its text: tokenizer.json goes before tokenizer_config.json."""
    vocabulary, entries = object_of(words.get("model")).get("vocab", {}), list(map(object_of, list_of(words.get("added_tokens"))))
    is_good = isinstance(vocabulary, dict) and all(map(_is_token, vocabulary.values())) and all(_is_token(entry.get("id")) for entry in entries)
    numbers = [int(entry["id"]) for entry in entries if entry.get("content") == token] if is_good else []
    numbers = sorted(numbers) or [number for number, one in _added_in(config).items() if _content(one) == token]
    return numbers[0] if numbers else int(vocabulary[token]) if is_good and token in vocabulary else None


def _read_tokenizer(directory: str, files: Set[str]) -> Tokenizer:
    names = [name for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json") if name in files]
    values = {name: parsed(read_bytes(os.path.join(directory, name), _LONGEST_TOKENIZER)) for name in names}
    odd = next((name for name in names if not isinstance(values[name], dict) and name != "vocab.json"), "")
    is_there = any(os.path.isfile(os.path.join(directory, name)) for name in files if name in _TOKENIZERS or name.endswith(".tiktoken"))
    numbers = [number for name in names if name != "special_tokens_map.json" for number in _numbers_in(name, values[name]) if _is_token(number)]
    config = object_of(values.get("tokenizer_config.json"))
    eos = _content(config.get("eos_token"))
    return Tokenizer(is_there, f"{odd} is not a JSON object" if odd else "", max(numbers) + 1 if numbers else None, config, eos,
                     _number_of(eos, config, object_of(values.get("tokenizer.json"))) if eos else None)


# The directory.

@dataclass
class Directory:
    path: str
    files: Set[str]
    config_text: Optional[bytes] = None
    generation_text: Optional[bytes] = None
    weights: List[WeightFile] = field(default_factory=list)
    index: Optional[WeightIndex] = None
    gguf: List[GgufFile] = field(default_factory=list)
    tokenizer: Tokenizer = field(default_factory=Tokenizer)

    def side_text(self, name: str, longest: int) -> Optional[bytes]:
        return read_bytes(os.path.join(self.path, name), longest) if name in self.files else None

    def equal(self, one: str, other: str) -> Optional[bool]:
        """Whether two tensors have the same bytes, everywhere if they are small, else in places all over them: tensors that were trained apart differ in
        almost all rows. None: they cannot be compared."""
        a, b = (next((weight.tensors[name] for weight in self.weights if name in weight.tensors), Stored("", ())) for name in (one, other))
        if a[:2] != b[:2] or a.begin < 0 or b.begin < 0:
            return None
        with opened(os.path.join(self.path, a.file)) as file_a, opened(os.path.join(self.path, b.file)) as file_b:
            for at in range(0, a.size, max(_LOOK, a.size // _LOOKS)):
                file_a.seek(a.begin + at)
                file_b.seek(b.begin + at)
                looked = file_a.read(min(_LOOK, a.size - at))
                if looked != file_b.read(len(looked)):
                    return False
        return True


def read_directory(path: str, is_gguf: bool, takes_safetensors: Callable[[Set[str]], bool]) -> Directory:
    """What a loader reads of it: `is_gguf`: GGUF files and config.json alone. Failed."""
    try:
        found = Directory(path, set(os.listdir(path)))
    except OSError as error:
        raise failed("read directory", path, error) from None
    found.config_text = found.side_text("config.json", _LONGEST_CONFIG)
    if is_gguf:
        found.gguf = [gguf_file(path, name) for name in sorted(found.files) if name.endswith(".gguf")]
        return found
    found.generation_text = found.side_text("generation_config.json", _LONGEST_SIDE_FILE)
    # The files of the directory, and others that the index names: safetensors, else pickles.
    is_safe = takes_safetensors(found.files)
    names = {name for name in found.files if (name.endswith(".safetensors") if is_safe else name.startswith("pytorch_model") and name.endswith(".bin"))}
    index = "model.safetensors.index.json" if is_safe else "pytorch_model.bin.index.json"
    text = found.side_text(index, LONGEST_INDEX)
    if text is not None:
        found.index = weight_index(text, index)
        names.update(name for name in set(found.index.file_of.values()) if os.path.exists(os.path.join(path, name)))
    found.weights = [weight_file(path, name) for name in sorted(names)]
    found.tokenizer = _read_tokenizer(path, found.files)
    return found

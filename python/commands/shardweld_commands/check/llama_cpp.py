"""llama.cpp b11549 (xllamacpp 2026.10): GGUF files, run without each tensor and each key, with others, with each tensor in another shape and each number
changed. Names of tensors: gguf 0.19, constants.
"""
from dataclasses import replace
from typing import Callable, Dict, Iterator, List, Optional, Set, Tuple

from ..text import printable, shape_text
from .known import facts, gguf_tensors, known_words
from .model import Findings, Loader, Model, Weights
from .names import is_number, lacking, numbers_hidden
from ..headers import GgufFile

WRITE_AGAIN = "write it again, or copy it again from where it was written"
REFUSED = "llama.cpp refuses it: write it again"
_TOKENS = "tokenizer.ggml.tokens"


def _models_of(model: Model) -> List[GgufFile]:
    """Each with all of its tensors; the first of several files holds the metadata of all. Towers of images, adapters and vocabularies are no models of text."""
    found: Dict[str, GgufFile] = {}
    for file in model.directory.gguf:
        if not file.fault and not file.unknown:
            stem = file.name.split("-of-")[0].rpartition("-")[0] or file.name if "-of-" in file.name else file.name
            one = found.setdefault(stem, replace(file, name=printable(file.name), n_files=0))
            one.tensors = {**file.tensors, **one.tensors}
            one.n_files += 1
    return [one for _, one in sorted(found.items()) if one.architecture != "clip" and one.text("general.type") in ("", "model")]


def _is_plain(one: GgufFile) -> bool:
    return one.architecture in facts("gguf-shaped") + facts("gguf-plain")


def rule_gguf(model: Model, found: Findings) -> None:
    if not any(name.endswith(".gguf") for name in model.directory.files):
        found.fatal("llama.cpp reads GGUF files, and there is none", "make one of this directory with shardweld merge DIR OUT --quantize gguf:q8_0, or with "
                    "llama.cpp's convert_hf_to_gguf.py")


def rule_gguf_header(model: Model, found: Findings) -> None:
    for file in model.directory.gguf:
        if file.fault:
            found.fatal(f"{printable(file.name)}: {file.fault}", WRITE_AGAIN)
        elif file.unknown:
            found.doubtful(f"{printable(file.name)} is not checked: {file.unknown}", "try it with llama.cpp itself")
    for one in _models_of(model):
        n_files = one.number("split.count") or 1
        if n_files > 1 and n_files != one.n_files:
            found.fatal(f"{one.name} is one of {n_files} files, {one.n_files} are there", "copy all of them")


def rule_gguf_keys(model: Model, found: Findings) -> None:
    """Metadata without which no model is loaded; of plain decoders numbers of attention, too."""
    for one in _models_of(model):
        if not one.architecture:
            found.fatal(f"{one.name} has no general.architecture", WRITE_AGAIN)
        elif one.architecture not in known_words("gguf-architectures"):
            found.fatal(f"{one.name} has the general.architecture {printable(one.architecture)}, which llama.cpp does not know",
                        "write it with a converter of the same version as llama.cpp")
        else:
            needed = ["block_count", "context_length", "embedding_length"]
            if _is_plain(one):
                needed += ["feed_forward_length", "attention.head_count", "attention.layer_norm_rms_epsilon"]
                needed += ["expert_used_count"] if (one.own("expert_count") or 0) > 0 else []
            for key in needed:
                whole = f"{one.architecture}.{key}"
                if not (key.endswith("epsilon") and whole in one.values) and one.own(key) is None and one.length(whole) == 0:
                    found.fatal(f"{one.name} has no number {whole}", WRITE_AGAIN)


def rule_gguf_tokens(model: Model, found: Findings) -> None:
    for one in _models_of(model):
        has_none = one.text("tokenizer.ggml.model") == "none"
        if one.length(_TOKENS) == 0 and not has_none:
            found.fatal(f"{one.name} has no tokenizer ({_TOKENS})", "write it again with the trained model's tokenizer beside config.json")
            continue
        if not one.text("tokenizer.ggml.model"):
            found.fatal(f"{one.name} does not say of what kind its tokenizer is (tokenizer.ggml.model)", WRITE_AGAIN)
        n_listed = one.length(_TOKENS)
        for key in ("tokenizer.ggml.token_type", "tokenizer.ggml.scores"):  # are read by the number of a token
            if one.length(key) not in (0, n_listed):
                found.add(one.length(key) < n_listed, f"{one.name} has {n_listed} tokens ({_TOKENS}), but {one.length(key)} entries in {key}", WRITE_AGAIN)
        for key in ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.bos_token_id"):
            if (one.number(key) or 0) >= n_listed:
                found.doubtful(f"{one.name} has {key} {one.number(key)}, and {n_listed} tokens", f"llama.cpp takes another: {WRITE_AGAIN}")
        n_tokens = (one.own("vocab_size") or 0) if has_none else one.length(_TOKENS)
        for name in ("token_embd.weight", "output.weight"):
            shape = one.tensors.get(name, ())
            if n_tokens != 0 and len(shape) == 2 and shape[0] != n_tokens:
                found.fatal(f"{one.name} has {n_tokens} tokens, but {name} has {shape[0]} rows",
                            "llama.cpp refuses it: write it with the trained model's tokenizer, or merge with its --vocab_size")
        if not one.text("tokenizer.chat_template"):
            found.doubtful(f"{one.name} has no chat template (tokenizer.chat_template)", "chats get llama.cpp's own: put chat_template.jinja beside config.json "
                           "and write it again, or give --chat-template")


# Tensors.

def _part_of(name: str) -> Tuple[Optional[int], str]:
    """3 and "attn_q.weight" of "blk.3.attn_q.weight"."""
    words = name.split(".", 2)
    return (int(words[1]), words[2]) if len(words) == 3 and words[0] == "blk" and is_number(words[1]) else (None, "")


def _blocks_of(one: GgufFile) -> Dict[int, Set[str]]:
    """Tensors that all blocks share, and those of layers that predict further tokens, which come beside the others, count for none."""
    blocks: Dict[int, Set[str]] = {}
    for number, part in map(_part_of, one.tensors):
        if number is not None and "nextn" not in part and not part.startswith("rope_"):
            blocks.setdefault(number, set()).add(part)
    return dict(sorted(blocks.items()))


def _lacking_in_family(architecture: str, blocks: Dict[int, Set[str]]) -> Iterator[str]:
    needed = facts("gguf-needed") + (facts("gguf-needed-shaped") + facts("gguf-needed-" + architecture) if architecture in facts("gguf-shaped") else [])
    for number, parts in blocks.items():
        for choices in (entry.split("|") for entry in needed):
            if not any(f"{one}.weight" in parts for one in choices):
                yield f"blk.{number}.{choices[0]}.weight"
        for choices in (entry.split("|") for entry in facts("gguf-together")):
            if f"{choices[0]}.weight" not in parts and any(f"{one}.weight" in parts for one in choices):
                yield f"blk.{number}.{choices[0]}.weight"


def _unknown(one: GgufFile) -> List[str]:
    """Tensors that the architecture does not know: norms of the families above have no bias, and factors belong to one form of rotary embedding."""
    known, is_long = gguf_tensors(one.architecture), one.text(f"{one.architecture}.rope.scaling.type") == "longrope"

    def is_known(name: str) -> bool:
        stem, _, end = numbers_hidden(name).rpartition(".")
        is_odd = one.architecture in facts("gguf-shaped") and stem.endswith("_norm") and end == "bias"
        return (not is_odd and (stem in known or f"{stem}.{end}" in known)) or (is_long and stem.startswith("rope_factors_"))

    return [name for name in sorted(one.tensors) if known and not is_known(name)]


def _derived_sizes(number: Callable[[str], Optional[int]]) -> Dict[str, Optional[int]]:
    """Extents that are no numbers of the metadata."""
    def product(a: Optional[int], b: Optional[int]) -> Optional[int]:
        return a * b if a and b and a > 0 and b > 0 else None

    def either(a: Optional[int], b: Optional[int]) -> Optional[int]:
        return b if a is None else a

    heads, width, rank = number("attention.head_count"), number("embedding_length"), number("attention.kv_lora_rank")
    head = either(number("attention.key_length"), width // heads if width is not None and heads is not None and heads > 0 else None)
    value_head, key_heads = either(number("attention.value_length"), head), either(number("attention.head_count_kv"), heads)
    turned, latent_key, expert = number("rope.dimension_count"), number("attention.key_length_mla"), number("expert_feed_forward_length")
    return {"head": head, "queries": product(heads, head), "keys": product(key_heads, head), "values": product(key_heads, value_head),
            "outputs": product(heads, value_head if rank is None else number("attention.value_length_mla")), "mla_queries": product(heads, latent_key),
            "mla_keys": rank + turned if turned is not None and rank is not None else None,
            "mla_part": latent_key - turned if turned is not None and latent_key is not None else None,
            "expert": either(expert, number("feed_forward_length")),
            "shared": either(number("expert_shared_feed_forward_length"), product(expert, number("expert_shared_count")))}


def _wrong_shapes(one: GgufFile) -> List[str]:
    """Tensors whose extents the metadata tells, in the architectures above."""
    def number(key: str) -> Optional[int]:  # where there is one for the whole model
        return None if one.length(f"{one.architecture}.{key}") else one.own(key)

    if one.architecture not in facts("gguf-shaped"):
        return []
    sizes, wrong = _derived_sizes(number), []
    rows = facts("gguf-extents") + facts("gguf-extents-plain" if number("attention.kv_lora_rank") is None else "gguf-extents-latent")
    extents = {name: words.split(",") for name, _, words in (row.partition("=") for row in rows)}
    for name, shape in sorted(one.tensors.items()):
        part = _part_of(name)[1]
        words = extents.get(part[:-len(".weight")] if part.endswith(".weight") else part, [])
        expected = [sizes[word] if word in sizes else number(word) for word in words]
        whole = tuple(extent for extent in expected if extent is not None)
        if words and len(whole) == len(words) and shape != whole:
            wrong.append(f"{name} {shape_text(shape)}, not {shape_text(whole)}")
    return wrong


def rule_gguf_tensors(model: Model, found: Findings) -> None:
    for one in _models_of(model):
        n_blocks, blocks, width = one.own("block_count"), _blocks_of(one), one.own("embedding_length")
        if n_blocks is None:
            continue
        has_other_ends = "bert" in one.architecture or one.architecture.startswith(("t5", "wav"))  # encoders
        missing = [name for name in ("token_embd.weight", "output_norm.weight") if name not in one.tensors and not has_other_ends]
        missing += [f"all of blk.{block}" for block in range(min(n_blocks, len(blocks) + 1000)) if block not in blocks]
        missing += lacking("blk.", blocks) if one.architecture not in facts("gguf-uneven") else ()
        missing += _lacking_in_family(one.architecture, blocks) if not missing and _is_plain(one) else ()
        found.fatal_for(missing, f"{one.name} lacks tensors: ",
                        "llama.cpp refuses it, or computes without them: write it again, or copy all of its files")
        found.fatal_for(_unknown(one), f"{one.name} has tensors that llama.cpp does not know in the architecture {printable(one.architecture)}: ",
                        "it counts them, and refuses the file: write it again without them")
        found.fatal_for(_wrong_shapes(one), f"{one.name} has tensors whose extents are not those that its numbers say: ", REFUSED)
        if blocks and max(blocks) >= n_blocks:
            found.fatal(f"{one.name} has tensors of blk.{max(blocks)}, but {one.architecture}.block_count is {n_blocks}", REFUSED)
        for name in ("token_embd.weight", "output.weight", "output_norm.weight", "blk.0.attn_norm.weight"):
            shape = one.tensors.get(name, ())
            if shape and width is not None and shape[-1] != width:
                found.fatal(f"{one.name}: {name} has {shape[-1]} columns, {one.architecture}.embedding_length is {width}", REFUSED)


def rule_routing(model: Model, found: Findings) -> None:
    """Absent is false, as in transformers' Qwen3MoeConfig."""
    if model.field("model_type") == "qwen3_moe" and model.field("norm_topk_prob") is not True:
        found.doubtful("config.json does not norm the routing's weights (norm_topk_prob), llama.cpp does so in all Qwen3-MoE models",
                       "its results will differ from transformers'")
LOADER = Loader("llama.cpp", "llama.cpp", lambda model, found: Weights(), lambda files: True)

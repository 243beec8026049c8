#!/usr/bin/env python3
"""Usage: generate-recipes.py PROGRAM [--out DIR] [--work DIR] [TYPE...]      (needs torch and transformers; an hour for all types)

Recipes of the model types that no one wrote a recipe for, made of transformers' own classes and proved against its save_pretrained.

A small model of each type is made, and what would be saved of it is worked out with a number for each element instead of its value. Where each number
went says how tensors are renamed and cut anew; rules are made of that, and transformers is asked what it would make of other names below the same module.
Then PROGRAM merges a checkpoint of a small model (random values, one FSDP rank file) with the rules, by one process and by three, and the result is held
against save_pretrained; and it writes the checkpoint back from that. A type is proved if all of that is equal, byte for byte.

DIR (src/models/recipes/generated) gets TYPE.recipe for each proved type whose tensors are renamed or cut anew, and proved.list with a line for each type
that was tried: "TYPE plain" (saved as the module tree has it), "TYPE renamed", "TYPE cut", "TYPE cut one-way" (the program refuses to write it back, for
the saved tensors do not tell where they are to be cut) or "TYPE refused REASON".
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import PrefixChange, WeightRenaming, apply_renamings, revert_weight_conversion
from transformers.modeling_utils import remove_tied_weights_from_state_dict
from transformers.models.auto import modeling_auto

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADS = ["IMAGE_TEXT_TO_TEXT", "CAUSAL_LM", "MULTIMODAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ"]
BIGGEST = 250_000_000
LAYERS = 4
# Fields of configurations that make a model small; lists of kinds of layers are shortened so that each kind is among the first.
SMALL = {
    **dict.fromkeys("vocab_size vocab_size_per_layer_input".split(), 128),
    **dict.fromkeys("hidden_size embed_dim out_hidden_size d_model n_embd projector_hidden_size projection_dim text_hidden_size mm_hidden_size dim".split(), 64),
    **dict.fromkeys("intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim ffn_hidden_size dense_intermediate_size intermediate_size_mlp d_ff".split(), 96),
    **dict.fromkeys("shared_intermediate_size".split(), 96),
    **dict.fromkeys("moe_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size expert_intermediate_size".split(), 32),
    **dict.fromkeys("num_hidden_layers".split(), LAYERS),
    **dict.fromkeys("depth num_layers encoder_layers decoder_layers".split(), 2),
    **dict.fromkeys("num_attention_heads num_heads encoder_attention_heads decoder_attention_heads n_head linear_num_value_heads".split(), 4),
    **dict.fromkeys("num_experts n_routed_experts num_local_experts moe_num_experts mamba_num_heads mamba_n_heads".split(), 4),
    **dict.fromkeys("num_key_value_heads num_experts_per_tok linear_num_key_heads index_n_heads n_groups o_groups num_global_key_value_heads".split(), 2),
    **dict.fromkeys("n_group topk_group first_k_dense_replace n_shared_experts index_kv_heads bos_token_id".split(), 1),
    **dict.fromkeys("head_dim v_head_dim qk_head_dim index_head_dim kv_lora_rank o_lora_rank head_dim_global global_head_dim patch_size mamba_head_dim".split(), 16),
    **dict.fromkeys("mamba_d_head hidden_size_per_layer_input".split(), 16),
    **dict.fromkeys("qk_rope_head_dim qk_nope_head_dim linear_key_head_dim linear_value_head_dim ssm_state_size mamba_d_state".split(), 8),
    **dict.fromkeys("pad_token_id num_nextn_predict_layers num_mtp_layers mtp_num_hidden_layers".split(), 0),
    **{"max_position_embeddings": 64, "q_lora_rank": 24, "index_topk": 4, "image_size": 32, "n_layer": 3, "eos_token_id": 2},
}
NGRAMS = {
    **{"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 4, "indexer_compress_ratio": 2, "hc_lowrank": 8},
    **{"ple_layer_ids": [1], "ple_embed_dim": 64, "ngram_vocab_size_base": 50, "split_ngram_parts": 2, "make_ngram_vocab_size_divisible_by": 2},
}
ROPES = {kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in ("full_attention", "sliding_attention")}
# Of configurations that make no model so.
SETTINGS = {
    "qwen4_exp_text": {**NGRAMS, "eos_token_id": 2},
    "qwen4_exp": {f"text_config.{key}": value for key, value in NGRAMS.items()},
    "laguna": {"num_attention_heads_per_layer": [4] * LAYERS},
    "dory": {"n_input_layers": 1, "n_recurrent_layers": 2, "n_output_layers": 1},
    "inkling2_text": {"vocab_size": 200064},
    "zaya": {"num_experts_per_tok": 1},
    "gemma4_assistant": {"hidden_size_per_layer_input": 0},
    "blt": {"encoder_hash_byte_group_vocab": 500},
    **{"dbrx": {"attn_config.rope_theta": 10000.0}, "granite4_vision": {"deepstack_layer_map": [[0, 0], [1, 1]]}},
    "diffusion_gemma": {"text_config.num_experts": 4, "text_config.top_k_experts": 2, "text_config.moe_intermediate_size": 32},
    "cohere_compass": {"text_config.rope_parameters": ROPES},
    "cohere_compass_text": {"rope_parameters": ROPES},
    "chameleon": {"vocabulary_map": {"<image>": 2}},
    "deepseek_ocr2": {"text_config.mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
    "mamba2": {"num_heads": 8},
    "xlnet": {"d_head": 16},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "attention_layers": ["global", "local"]},
    "molmo2": {"adapter_config.vision_feature_layer": [3, 1]},
    "emu3": {"text_config.pad_token_id": 0, "vocabulary_map": {"<|extra_200|>": 1, "<image>": 2}},
    "hunyuan_vl": {"text_config.head_dim": 16},
    "inkling2": {"text_config.vocab_size": 200064},
    "inkling2_loop": {"text_config.vocab_size": 200064},
    "inkling2_loop_text": {"vocab_size": 200064},
}


class Refused(Exception):
    """Why a type has no recipe."""


# --- small models -----------------------------------------------------------------------------------------------------------------------------


def class_of(model_type):
    for head in HEADS:
        names = getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES", {})
        if model_type in names:
            return names[model_type] if isinstance(names[model_type], str) else names[model_type][0]
    raise Refused("no class of a language model")


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


def small_model(model_type):
    name = class_of(model_type)
    try:
        config = transformers.AutoConfig.for_model(model_type)
        shrink(config)
        for path, value in SETTINGS.get(model_type, {}).items():
            *above, last = path.split(".")
            part = config
            for one in above:
                part = getattr(part, one)
            setattr(part, last, value)
        with torch.device("meta"):
            size = sum(p.numel() for p in getattr(transformers, name)(config).parameters())
        if size > BIGGEST:
            raise Refused(f"the smallest model has {size // 1_000_000} million weights")
        model = getattr(transformers, name)(config).to(torch.bfloat16).eval()
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001: libraries that are not there, configurations that make no model
        raise Refused(f"no small model: {' '.join(str(error).split())[:110]}") from error
    torch.manual_seed(5)
    with torch.no_grad():
        for one in model.parameters():
            one.copy_(torch.randn(one.shape).to(one.dtype))
    return model


# --- what saving does to names and elements ---------------------------------------------------------------------------------------------------

ELEMENT = 1 << 40
CAPTURES = "lijkmn"


class Trace:
    """Which element of which stored tensor each element of the saved ones is."""

    def __init__(self, model):
        self.model = model
        stored = dict(model.state_dict())
        once = remove_tied_weights_from_state_dict(dict(stored), model)
        self.names = [name for name in stored if name in once and stored[name].numel()]
        self.shapes = [tuple(stored[name].shape) for name in self.names]
        numbers = {n: torch.arange(stored[n].numel()).reshape(stored[n].shape) + (i + 1) * ELEMENT for i, n in enumerate(self.names)}
        self.saved = revert_weight_conversion(model, dict(numbers))
        self.order = {name: i for i, name in enumerate(self.names)}

    def renamings(self):
        mapping = [one for one in get_model_conversion_mapping(self.model, add_legacy=False) if not isinstance(one, PrefixChange)]
        return [one.reverse_transform() for one in mapping[::-1] if isinstance(one, WeightRenaming)]

    def parts(self):
        """Pairs of names of what is only renamed, and groups (stored names, saved names) of what is cut anew."""
        edges = {name: (torch.unique(value.reshape(-1) // ELEMENT) - 1).tolist() for name, value in self.saved.items()}
        users = collections.Counter(i for sources in edges.values() for i in sources)
        same, groups = [], []
        for name, sources in edges.items():
            i = sources[0]
            if i < 0:
                raise Refused(f"{name} is saved with elements that no stored tensor has")
            whole = torch.arange(self.saved[name].numel()) + (i + 1) * ELEMENT
            if len(sources) == 1 and users[i] == 1 and tuple(self.saved[name].shape) == self.shapes[i] and torch.equal(self.saved[name].reshape(-1), whole):
                same.append((self.names[i], name))
                continue
            group = ({self.names[i] for i in sources}, {name})
            for other in [one for one in groups if one[0] & group[0]]:
                groups.remove(other)
                group = (group[0] | other[0], group[1] | other[1])
            groups.append(group)
        saved_order = {name: i for i, name in enumerate(self.saved)}
        return same, [(sorted(a, key=self.order.get), sorted(b, key=saved_order.get)) for a, b in groups]


def hidden(name):
    parts = name.split(".")
    return tuple("#" if part.isdigit() else part for part in parts), tuple(int(part) for part in parts if part.isdigit())


def affine(xs, ys):
    """(factor, sum) that make each y of its x."""
    for factor in (1, 2):
        for plus in (0, 1, -1):
            if all(y == factor * x + plus for x, y in zip(xs, ys)):
                return factor, plus
    return None


def with_numbers(shape, numbers):
    given = iter(numbers)
    return ".".join(str(next(given)) if part == "#" else part for part in shape)


def counted(capture, use):
    factor, plus = use
    return "{" + capture + (f"*{factor}" if factor > 1 else "") + (f"{plus:+d}" if plus else "") + "}"


def pattern_of(shape, members, fixed):
    """The rule of names of one shape whose numbers at `fixed` are one each; None where the others do not follow."""
    targets = {hidden(to)[0] for _, to in members}
    if len(targets) != 1:
        return None
    target = targets.pop()
    free = [i for i in range(shape.count("#")) if i not in fixed]
    uses, taken = [], {}
    for t in range(target.count("#")):
        ys = [hidden(to)[1][t] for _, to in members]
        fits = [(i, affine([numbers[i] for numbers, _ in members], ys)) for i in free if i not in taken]
        fits = sorted((one for one in fits if one[1]), key=lambda one: one[1] != (1, 0))
        if len(set(ys)) == 1 and not (fits and fits[0][1] == (1, 0)):
            uses.append(str(ys[0]))
        elif fits and fits[0][1] == (1, 0):
            taken[fits[0][0]] = CAPTURES[len(taken)]
            uses.append(counted(taken[fits[0][0]], fits[0][1]))
        else:
            return None
    if any(i not in taken and len({numbers[i] for numbers, _ in members}) > 1 for i in free):
        return None
    first = members[0][0]
    return with_numbers(shape, ["{" + taken[i] + "}" if i in taken else first[i] for i in range(len(first))]), with_numbers(target, uses)


def name_rules(pairs):
    """(pattern, pattern) for names that are only renamed."""
    groups = collections.defaultdict(list)
    for stored, saved in pairs:
        shape, numbers = hidden(stored)
        groups[shape].append((numbers, saved))
    rules = []
    for shape, members in groups.items():
        rules += next((found for found in (rules_with(shape, members, fixed) for fixed in subsets(shape.count("#"))) if found), None) or refuse(
            f"no rule for the name {'.'.join(shape)}")
    return rules


def refuse(why):
    raise Refused(why)


def subsets(n):
    return sorted((tuple(i for i in range(n) if mask >> i & 1) for mask in range(1 << n)), key=len)


def rules_with(shape, members, fixed):
    by_number = collections.defaultdict(list)
    for numbers, saved in members:
        by_number[tuple(numbers[i] for i in fixed)].append((numbers, saved))
    found = [pattern_of(shape, some, fixed) for some in by_number.values()]
    return None if None in found else found


def filled(text, numbers):
    return re.sub(r"\{(\w+)(?:\*(\d+))?([+-]\d+)?\}", lambda m: str(numbers[m[1]] * int(m[2] or 1) + int(m[3] or 0)), text)


class Renames:
    """Few rules for beginnings of names, of which transformers makes the same for other names below a module."""

    def __init__(self, rules, renamings):
        self.renamings, self.out = renamings, []
        self.below([], [(a.split("."), b.split(".")) for a, b in rules], ([], []))

    def head_of(self, prefix, leaves):
        """What transformers makes of a name below the prefix that no class has; None where it is not told by a rule of ours."""
        numbers = {capture: i + 5 for i, capture in enumerate(CAPTURES)}
        made = apply_renamings(filled(".".join(prefix), numbers) + ".shardweld.weight", self.renamings)
        for a, b in leaves:
            rest = a[len(prefix):]
            if rest and b[-len(rest):] == rest and filled(".".join(b[:-len(rest)] + ["shardweld", "weight"]), numbers) == made:
                head = b[:-len(rest)]
                if set(re.findall(r"\{(\w)", ".".join(head))) == set(re.findall(r"\{(\w)", ".".join(prefix))):
                    return head
        return None

    def below(self, prefix, leaves, above):
        """`above`: the rule that holds if none is added."""
        whole = [(a, b) for a, b in leaves if len(a) == len(prefix)]
        leaves = [(a, b) for a, b in leaves if len(a) > len(prefix)]
        for a, b in whole:
            if b != above[1] + a[len(above[0]):]:
                self.out.append((".".join(a), ".".join(b)))
        if all(b == above[1] + a[len(above[0]):] for a, b in leaves):
            return
        head = self.head_of(prefix, leaves) if prefix else None
        if head is not None and head and head != above[1] + prefix[len(above[0]):]:
            self.out.append((".".join(prefix) + ".", ".".join(head) + "."))
            above = (prefix, head)
        children = collections.defaultdict(list)
        for leaf in leaves:
            children[leaf[0][len(prefix)]].append(leaf)
        for child, some in children.items():
            self.below(prefix + [child], some, above)


# --- tensors that are cut anew ----------------------------------------------------------------------------------------------------------------


def order_of(places):
    """("plain", first) or ("turned", first, blocks, p, q): rows (blocks p q) in the order (blocks q p)."""
    first, n = min(places), len(places)
    steps = [place - first for place in places]
    if steps == list(range(n)):
        return "plain", first
    for blocks in range(1, n // 4 + 1):
        size = n // blocks
        for p in range(2, size) if n % blocks == 0 else ():
            q = size // p
            if size % p == 0 and steps == [b * size + y * q + x for b in range(blocks) for x in range(q) for y in range(p)]:
                return "turned", first, blocks, p, q
    raise Refused("rows in an order that no rule says")


class Piece:
    """What one saved tensor has of one stored tensor: a box of each, and for each dim of the stored one the saved one's and the order."""

    def __init__(self, trace, stored, saved):
        number, value = trace.order[stored] + 1, trace.saved[saved]
        at = (value // ELEMENT == number).nonzero()
        self.low, high = at.min(0).values.tolist(), (at.max(0).values + 1).tolist()
        box = value[tuple(slice(a, b) for a, b in zip(self.low, high))]
        if not (box // ELEMENT == number).all():
            raise Refused("rows of two tensors in turn")
        self.extents, rest, self.dims = list(box.shape), box % ELEMENT, []
        shape = trace.shapes[number - 1]
        for extent in reversed(shape):
            self.dims.insert(0, self.dim(rest % extent))
            rest = rest // extent
        # Dims of extent 1 stand for those that nothing tells apart.
        used = {dim for dim, _ in self.dims if dim is not None}
        idle = [dim for dim in range(value.dim()) if dim not in used]
        missing = len(shape) - value.dim()
        for i, (dim, order) in enumerate(self.dims):
            if dim is None and idle and not (missing > 0 and shape[i] > 1):
                self.dims[i] = (idle.pop(0), ("plain", order[1]))
        if idle:
            raise Refused("a dim that the stored tensor does not have")

    @staticmethod
    def dim(places):
        moving = [k for k in range(places.dim()) if places.shape[k] > 1 and not (places == places.narrow(k, 0, 1)).all()]
        if len(moving) > 1:
            raise Refused("dims made one, or one made dims")
        if not moving:
            return None, ("fixed", int(places.reshape(-1)[0]))
        line = places
        for k in range(places.dim() - 1, -1, -1):
            line = line if k == moving[0] else line.select(k, 0)
        return moving[0], order_of(line.tolist())


class Cut:
    """The lines of a group: one tensor on one side, parts of it on the other."""

    LETTERS = "abcdfgh"

    def __init__(self, trace, stored, saved, heads):
        self.lets, self.heads = {}, heads
        self.is_split = len(stored) == 1  # the stored tensor is the whole
        pieces = [(one, Piece(trace, stored[0] if self.is_split else one, one if self.is_split else saved[0])) for one in (saved if self.is_split else stored)]
        whole = stored[0] if self.is_split else saved[0]
        if not self.is_split and len(saved) != 1:
            raise Refused("several tensors made of several")
        self.whole, self.parts = self.lines(whole, pieces, trace)

    def lines(self, whole, pieces, trace):
        shape = trace.shapes[trace.order[whole]] if self.is_split else tuple(trace.saved[whole].shape)
        rank = len(shape)
        spans = []  # per piece and dim of the whole: (first, extent, dim of the part, order)
        for name, piece in pieces:
            row = [None] * rank
            for i, (dim, order) in enumerate(piece.dims):
                if self.is_split:
                    extent = piece.extents[dim] if dim is not None else 1
                    row[i] = (order[1], extent, dim, order)
                elif dim is not None:
                    row[dim] = (piece.low[dim], piece.extents[dim], i, order)
            for d in range(rank):
                row[d] = row[d] or (piece.low[d], 1, None, ("fixed", 0))
            spans.append(row)
        labels, axes, numbers = [""] * len(pieces), [], [None] * len(pieces)
        part_axes = [{} for _ in pieces]
        for d in range(rank):
            column = [row[d] for row in spans]
            if all(one[2] is None for one in column):
                axes.append("e")
                for k, one in enumerate(column):
                    numbers[k] = one[0]
                continue
            letter = self.LETTERS[d]
            starts = sorted({one[0] for one in column})
            if len(starts) == 1:
                text, part = self.ordered(letter, column[0][3], len(pieces) == 1)
                axes.append(text if self.is_split else part if column[0][3][0] == "turned" else letter)
                for k, one in enumerate(column):
                    part_axes[k][one[2]] = part if self.is_split else text
                continue
            if any(label for label in labels):
                raise Refused("cut along two dims")
            # A tensor that is cut in equal parts says how large they are; parts that are joined say it themselves.
            extent = {one[0]: one[1] for one in column}
            names = [letter if self.is_split else f"{letter}{i}" for i in range(len(starts))]
            if self.is_split and len(set(extent.values())) != 1:
                raise Refused("cut in parts of several sizes")
            wholes = []
            for i, start in enumerate(starts):
                order = next(one[3] for one in column if one[0] == start)
                text, part = self.ordered(names[i], order, False)
                wholes.append(f"{'xyzuvwst'[i]}: {(text if self.is_split else part).strip('()')}")
                for k, one in enumerate(column):
                    if one[0] == start:
                        labels[k] = "xyzuvwst"[i]
                        part_axes[k][one[2]] = part if self.is_split else text
            axes.append("[" + " | ".join(wholes) + "]")
        parts = []
        for k, (name, _) in enumerate(pieces):
            layout = " ".join(part_axes[k][dim] for dim in sorted(part_axes[k]))
            parts.append((name, numbers[k], (labels[k] + ": " if labels[k] else "") + layout))
        return (whole, " ".join(axes)), parts

    def ordered(self, letter, order, is_alone):
        """The dim in the stored tensor and in the saved one."""
        if order[0] != "turned":
            return letter, letter
        _, _, blocks, p, q = order
        if blocks == 1 and 2 in (p, q):
            self.lets["two"] = "2"
            items = ("two", letter) if p == 2 else (letter, "two")
            return f"({items[0]} {items[1]})", f"({items[1]} {items[0]})"
        field = next((path for path, value in self.heads if value == blocks), None)
        if field is None or p != 2:
            raise Refused("rows turned in blocks whose number no field says")
        self.lets["two"], self.lets["n"] = "2", f"@{field}"
        return f"(n two {letter})", f"(n {letter} two)"


def head_fields(config, name):
    """Fields with numbers of attention heads, those of the tower that the name is of first."""
    found = []
    for key, part in config.to_dict().items():
        if isinstance(part, dict) and isinstance(part.get("num_attention_heads"), int):
            found.append((f"{key}.num_attention_heads", part["num_attention_heads"]))
    found.sort(key=lambda one: ("vision" in name) != ("vision" in one[0]))
    if isinstance(getattr(config, "num_attention_heads", None), int):
        found.append(("num_attention_heads", config.num_attention_heads))
    return found


def recipe_text(model_type, trace):
    same, groups = trace.parts()
    renames = Renames(name_rules(same), trace.renamings()).out
    lines, lets, seen = [], {}, {}
    for stored, saved in groups:
        cut = Cut(trace, stored, saved, head_fields(trace.model.config, stored[0]))
        key = (tuple(hidden(name)[0] for name in stored), tuple(sorted({hidden(name)[0] for name in saved})))
        rows = generalise(cut, renames)
        if key in seen:
            if seen[key] != rows:
                raise Refused(f"{stored[0]} is cut in another way than its like")
            continue
        seen[key] = rows
        lets.update(cut.lets)
        lines += [(f"{kind} {name}", f"r{len(seen)}{logical} {layout}") for kind, name, logical, layout in rows]
    return text_of(model_type, renames, lines, lets), bool(lines), bool(renames)


def renamed(name, renames):
    best = max((rule for rule in renames if matches(rule[0], name)), key=lambda rule: len(rule[0]), default=None)
    if best is None:
        return name
    found = matches(best[0], name)
    return filled(best[1], {key: int(value) for key, value in found.groupdict().items()}) + name[found.end():]


def matches(pattern, name):
    return re.match(re.sub(r"\\\{(\w)\\\}", r"(?P<\1>\\d+)", re.escape(pattern)), name)


def generalise(cut, renames):
    """Rows (kind, name, captures of the logical tensor, layout) with captures for numbers of layers, and {e} for the one that counts parts."""
    whole, layout = cut.whole
    tree, hub = ("tree", "hub") if cut.is_split else ("hub", "tree")
    whole = renamed(whole, renames) if cut.is_split else whole
    shape, numbers = hidden(whole)
    captures = CAPTURES[:len(numbers)]
    rows = [(tree, with_numbers(shape, ["{" + c + "}" for c in captures]), "".join(".{" + c + "}" for c in captures), layout)]
    for name, number, part_layout in cut.parts:
        name = name if cut.is_split else renamed(name, renames)
        part_shape, part_numbers = hidden(name)
        spare, texts, counts = list(zip(captures, numbers)), [], number is not None
        for i, value in enumerate(part_numbers):
            is_count = counts and value == number and i == len(part_numbers) - 1
            match = None if is_count else next((one for one in spare if one[1] == value), None)
            if is_count:
                texts.append("{e}")
                counts = False
            elif match:
                spare.remove(match)
                texts.append("{" + match[0] + "}")
            else:
                texts.append(str(value))
        if counts:
            raise Refused(f"{name} does not say which part it is")
        if spare:
            raise Refused(f"{name} does not say which layer it is of")
        rows.append((hub, with_numbers(part_shape, texts), rows[0][2], part_layout))
    return list(dict.fromkeys(rows))


def text_of(model_type, renames, lines, lets):
    words = set(re.findall(r"\b[a-z]\d?\b", " ".join(re.sub(r"\w+:", "", layout.split(" ", 1)[1]) for _, layout in lines)))
    words |= set(re.findall(r"\{(\w)\}", " ".join(name for name, _ in lines)))
    sized = sorted(words - set(lets))
    out = [f"# Made by scripts/generate-recipes.py of transformers {transformers.__version__}; proved against its save_pretrained.",
           "recipe " + re.sub(r"\W", "_", model_type) + ("_tree" if (ROOT / f"src/models/recipes/{model_type}.recipe").exists() else ""), "format 1", "uses none", f'match @model_type = "{model_type}"', "pass *"]
    out += ["sized " + " ".join(sized)] if sized else []
    out += [f"let {name} = {value}" for name, value in sorted(lets.items())]
    out += [f"rename {a} = {b}" for a, b in renames]
    return "\n".join(out + [f"{name} = {layout}" for name, layout in lines]) + "\n"


# --- the proof --------------------------------------------------------------------------------------------------------------------------------


def tensors_in(directory):
    from safetensors import safe_open

    found = {}
    for path in sorted(pathlib.Path(directory).glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            found.update({name: file.get_tensor(name) for name in file.keys()})
    return found


def same_bytes(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def difference(expected, got):
    lacks = [name for name in expected if name not in got]
    more = [name for name in got if name not in expected]
    differs = [name for name in expected if name in got and not same_bytes(expected[name], got[name])]
    return f"{len(lacks)} lacking, {len(more)} more, {len(differs)} others: {(lacks + more + differs)[0]}" if lacks or more or differs else ""


UNTOLD = "does not tell how large its parts are"


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in (done.stderr + done.stdout).splitlines() if "error:" in line]
    if done.returncode:
        raise Refused(f"code {done.returncode}: {(said or done.stderr.splitlines() or [''])[0][:200]}")


def prove(program, recipe, model, work):
    stored = {name: value.clone() for name, value in model.state_dict().items()}
    source, expected = work / "source", work / "expected"
    source.mkdir(parents=True)
    (source / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": 1}))
    torch.save(stored, source / "model_world_size_1_rank_0.pt")
    model.save_pretrained(expected)
    wanted = tensors_in(expected)
    with_recipe = ["--recipe", str(recipe)] if recipe else []
    launcher = os.environ.get("MPIRUN", "mpirun").split()
    for ranks in (1, 3):
        target = work / f"merged{ranks}"
        start = [*launcher, "-n", str(ranks)] if ranks > 1 else []
        run([*start, program, "merge", "--local_dir", str(source), "--hf_config", str(expected), "--target_dir", str(target), *with_recipe])
        if why := difference(wanted, tensors_in(target)):
            raise Refused(f"merged by {ranks}: {why}")
    try:
        run([program, "reshape", str(expected), str(work / "back"), "--to", "fsdp:world=1", *with_recipe])
    except Refused as why:
        if UNTOLD in str(why):
            return " one-way"
        raise
    files = sorted((work / "back").rglob("*rank_0.pt"))
    files = [one for one in files if one.name.startswith("model")]
    back = torch.load(files[0], weights_only=False) if files else {}
    back = {name: value.to_local() if hasattr(value, "to_local") else value for name, value in back.items()}
    # Of names of one tensor the model loads any.
    places = collections.defaultdict(list)
    for name, value in model.state_dict().items():
        places[(value.data_ptr(), value.shape) if value.numel() else name].append(name)
    lacking = {name for names in places.values() if any(name in back for name in names) for name in names if name not in back}
    if why := difference({name: value for name, value in stored.items() if name not in lacking}, back):
        raise Refused(f"written back: {why}")
    return ""


def hand_written():
    types = set()
    for path in (ROOT / "src/models/recipes").glob("*.recipe"):
        for line in path.read_text().splitlines():
            if line.startswith("match"):
                types.update(re.findall(r'"([^"]+)"', line.split(" and ")[0]))
    return types


def try_type(model_type, program, work):
    """(kind, the recipe's text or "")."""
    model = small_model(model_type)
    try:
        trace = Trace(model)
        text, is_cut, is_renamed = recipe_text(model_type, trace)
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001: transformers' own code
        raise Refused(f"{type(error).__name__}: {' '.join(str(error).split())[:110]}") from error
    path = work / f"{model_type}.recipe"
    path.write_text(text)
    try:
        ways = prove(program, path, model, work / "proof")
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001: configurations that are not saved
        raise Refused(f"save_pretrained: {' '.join(str(error).split())[:110]}") from error
    return ("cut" if is_cut else "renamed" if is_renamed else "plain") + ways, text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "src/models/recipes/generated")
    parser.add_argument("--keep", type=pathlib.Path, help="put what was tried of single types there")
    parser.add_argument("types", nargs="*")
    given = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(50)
    transformers.utils.logging.disable_progress_bar()
    known = hand_written()
    names = set().union(*(getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES", {}) for head in HEADS))
    given.out.mkdir(parents=True, exist_ok=True)
    record = given.out / "proved.list"
    rows = {}
    if given.types and record.exists():
        rows = {line.split()[0]: line.split(" ", 1)[1] for line in record.read_text().splitlines() if not line.startswith("#")}
    for model_type in given.types or sorted(names - known):
        work = pathlib.Path(tempfile.mkdtemp())
        (given.out / f"{model_type}.recipe").unlink(missing_ok=True)
        try:
            kind, text = try_type(model_type, given.program, work)
            rows[model_type] = kind
            if kind != "plain":
                (given.out / f"{model_type}.recipe").write_text(text)
        except Refused as why:
            rows[model_type] = f"refused {' '.join(str(why).replace(str(work), '').split())}"
        if given.keep:
            shutil.copytree(work, given.keep / model_type, dirs_exist_ok=True)
        shutil.rmtree(work)
        print(model_type, rows[model_type], flush=True)
        head = f"# Made by scripts/generate-recipes.py of transformers {transformers.__version__}; do not edit"
        record.write_text("\n".join([head, *(f"{name} {rows[name]}" for name in sorted(rows))]) + "\n")
    print(collections.Counter(kind.split()[0] for kind in rows.values()))


if __name__ == "__main__":
    main()

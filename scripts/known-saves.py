#!/usr/bin/env python3
"""Usage: known-saves.py [TYPE...] > src/models/recipes/transformers.list     (needs torch, transformers, timm; a quarter of an hour)

What save_pretrained of transformers writes otherwise than the module tree has it, by model type. Every class that the auto classes know is made
without memory, and what would be saved of it is held against its state_dict. A row has, between bars:

- the model type; one without a row, of those behind "+", is saved as its module tree has it. Classes behind it that are not called like it;
- whether tensors are tied, 0 or 1, where tie_word_embeddings is absent, false and true; then the same where text_config ties its own, if the type
  looks there;
- COPY=KEPT: names of one tensor, of which the second is saved. Where both end in a dot, of all tensors below;
- what is renamed or cut anew: parts of names that no saved tensor has, but each of those. "#" is a number, "^" and "$" are a name's ends.

Types of which no class could be made have "?" as the last; stderr says why.
"""

import collections
import importlib.util
import itertools
import pathlib
import re
import sys
import textwrap

import torch
import transformers
from transformers.core_model_loading import revert_weight_conversion
from transformers.modeling_utils import remove_tied_weights_from_state_dict
from transformers.models.auto import modeling_auto

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python/commands"))
from shardweld_commands.recipes_generate import models as recipes_generate  # noqa: E402

FIELD = "tie_word_embeddings"
# Of configurations whose defaults make no model.
SETTINGS = {
    "aya_vision": {"vision_config.num_attention_heads": 16},
    "deepseek_ocr2": {"text_config.mlp_layer_types": ["dense"] + ["sparse"] * 99},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "emu3": {"text_config.pad_token_id": 0, "vocabulary_map": {"<|extra_200|>": 1, "<image>": 2}},
    "esm": {"vocab_size": 33},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl": {"text_config.head_dim": 128},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "ministral": {"head_dim": 128},
    "nemotron": {"head_dim": 128},
}
for name in "chameleon cohere_compass cohere_compass_text dbrx diffusion_gemma granite4_vision qwen4_exp qwen4_exp_text".split():
    SETTINGS[name] = recipes_generate.SETTINGS[name]


def squeezed(name):
    return re.sub(r"[^a-z0-9]", "", name.lower())


def modeling_of(configuration):
    name = configuration.__module__.replace(".configuration_", ".modeling_")
    return importlib.import_module(name if importlib.util.find_spec(name) else configuration.__module__)


def classes_by_type():
    found = collections.defaultdict(set)
    for name in dir(modeling_auto):
        if name.startswith("MODEL") and name.endswith("_MAPPING_NAMES"):
            for model_type, classes in getattr(modeling_auto, name).items():
                found[model_type].update([classes] if isinstance(classes, str) else classes)
    # Parts of composite models that no auto class knows, as far as they tie tensors of their own.
    for model_type in set(transformers.CONFIG_MAPPING) - set(found):
        configuration = transformers.CONFIG_MAPPING[model_type]
        module = modeling_of(configuration)
        found[model_type].update(name for name, one in vars(module).items() if isinstance(one, type) and issubclass(one, transformers.PreTrainedModel)
                                 and one.config_class is configuration and one._tied_weights_keys)
    return found


def made(model_type, name):
    config = transformers.CONFIG_MAPPING[model_type]()
    for path, value in {**SETTINGS.get(model_type, {}), FIELD: True}.items():
        *above, last = path.split(".")
        part = config
        for one in above:
            part = getattr(part, one)
        setattr(part, last, value)
    module = modeling_of(type(config))
    with torch.device("meta"):
        return getattr(transformers, name, getattr(module, name, None))(config)


def hidden(name):
    return tuple("#" if part.isdigit() else part for part in ("^", *name.split("."), "$"))


def runs(parts):
    return {parts[i:j] for i, j in itertools.combinations(range(len(parts) + 1), 2)}


def n_words(run):
    return sum(part not in "^$" for part in run)


def telling_parts(gone, saved):
    """Few runs of parts that each of `gone` has one of and none of `saved`, as long as they can be; "*" where that cannot be."""
    taken = set().union(*map(runs, saved))
    holders = collections.defaultdict(set)
    for name in gone:
        for run in runs(name) - taken:
            if n_words(run) > 1 or len(name) < 4:
                holders[run].add(name)
    found, left = [], set(gone)
    while left:
        best = max(holders, key=lambda run: (len(holders[run] & left), -len(run), run), default=None)
        if best is None or not holders[best] & left:
            return ["*"]
        found.append(max((run for run in holders if holders[run] == holders[best]), key=lambda run: (len(run), run)))
        left -= holders[best]
    return sorted(".".join(run) for run in found)


def below(ties, names):
    """Pairs of modules for the tensors below them, where there are many."""
    if len(ties) < 8:
        return ties
    modules = {}
    for copy, kept in ties.items():
        a, b = copy.split("."), kept.split(".")
        while len(a) > 1 and len(b) > 1 and a[-1] == b[-1]:
            a.pop(), b.pop()
        first, second = ".".join(a) + ".", ".".join(b) + "."
        is_whole = all(ties.get(name, name) in (second + name[len(first) :], name) for name in names if name.startswith(first))
        modules.update({first: second} if is_whole else {copy: kept})
    return modules


class Row:
    def __init__(self, model_type):
        self.type, self.ties, self.gone, self.saved, self.faults, self.n_made = model_type, {}, set(), set(), [], 0

    def add(self, name):
        try:
            model = made(self.type, name)
            stored = model.state_dict()
            once = remove_tied_weights_from_state_dict(dict(stored), model)
            saved = revert_weight_conversion(model, dict(once))
            ties = model.get_expanded_tied_weights_keys(all_submodels=False)
        except Exception as error:  # noqa: BLE001: libraries that are not there, configurations that make no model
            self.faults.append(f"{name}: {str(error).strip().splitlines()[0][:100] if str(error) else type(error).__name__}")
            return
        self.n_made += 1
        ties = {copy: kept for copy, kept in ties.items() if copy in stored and kept in stored}
        ties = {copy: ties.get(kept, kept) for copy, kept in ties.items()}
        for copy, kept in below(ties, stored).items():
            self.ties.setdefault(copy, []).append(kept)
        self.gone |= {hidden(name) for name in once if name not in saved}
        self.saved |= {hidden(name) for name in saved}
        again = [name for name in once if name in saved and saved[name].shape != once[name].shape]
        if again:
            raise SystemExit(f"{self.type}: {again[0]} is cut anew under its own name, which the list cannot say")

    def text(self, classes):
        called = {squeezed(self.type), squeezed(self.type).removesuffix("text")}
        others = sorted(one for one in classes if squeezed(re.split(r"For|LMHead|Model", one)[0]) not in called) if self.gone else []
        pairs = sorted(f"{copy}={kept}" for copy, all_kept in self.ties.items() for kept in set(all_kept))
        if len(pairs) > 64:  # whole models that share layers
            pairs = []
        parts = telling_parts(self.gone - self.saved, self.saved) if self.gone else []
        if self.n_made == 0 and classes:
            parts = ["?"]
        if not pairs and not parts:
            return ""
        cells = [" ".join([self.type, *others]), flags(self.type) if pairs else "", " ".join(pairs), " ".join(parts)]
        return " | ".join(cells).rstrip(" |")


def is_tied(model_type, stated, text_ties):
    fields = {} if stated is None else {FIELD: stated}
    configuration = transformers.CONFIG_MAPPING[model_type]
    try:
        if text_ties is not None:
            text = getattr(configuration(), "text_config").to_dict()
            fields["text_config"] = {**text, FIELD: text_ties}
        return str(int(bool(getattr(configuration(**fields), FIELD, False))))
    except Exception:  # noqa: BLE001: refused
        return "0"


def flags(model_type):
    has_text = isinstance(getattr(transformers.CONFIG_MAPPING[model_type](), "text_config", None), transformers.PreTrainedConfig)
    sets = ["".join(is_tied(model_type, stated, text) for stated in (None, False, True)) for text in ((False, True) if has_text else (None,))]
    return "".join(sets[:1] if len(set(sets)) == 1 else sets)


def main():
    transformers.logging.set_verbosity(50)
    print(f"# Written by scripts/known-saves.py of transformers {transformers.__version__}")
    classes = classes_by_type()
    plain = []
    for model_type in sys.argv[1:] or sorted(transformers.CONFIG_MAPPING):
        row = Row(model_type)
        for name in sorted(classes[model_type]):
            row.add(name)
        if row.faults:
            print(f"{model_type}: made {row.n_made}; {'; '.join(row.faults)}", file=sys.stderr)
        text = row.text(classes[model_type])
        if text:
            print(text, flush=True)
        else:
            plain.append(model_type)
    for line in textwrap.wrap(" ".join(plain), 146, break_on_hyphens=False, break_long_words=False):
        print("+", line)


main()

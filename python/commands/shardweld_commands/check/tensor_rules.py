"""Names and shapes of the tensors, against config.json, the tokenizer and the model's family."""
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from ..files import object_of
from ..text import glob_matches, listed, printable, shape_text
from .model import Expected, Findings, Model, Shape, ends_in, first_of
from .known import facts
from .names import (EMBEDDING, HEAD, TOWERS, Places, is_computed, is_number, is_of_adapter, is_of_tower, is_tied, lacking, numbers_hidden,
                    places_of, predicts_further_tokens, rows_of_embedding, stack_layer_of, stored_head, whereabouts, wrapper_in)
from .scheme import is_part_of_codes

RANDOM = "they would be random: merge again, or copy all files"
TRY = "try it with the loader itself"


# Embedding and head.

def rule_tokens(model: Model, found: Findings) -> None:
    name, rows = rows_of_embedding(model)
    tokens = model.directory.tokenizer.n_tokens
    if rows is not None and tokens is not None and tokens > rows:
        found.fatal(f"the tokenizer has tokens up to {tokens - 1}, {printable(name)} has {rows} rows", "give the tokenizer that the model was trained with")


def rule_vocabulary(model: Model, found: Findings) -> None:
    name, rows = rows_of_embedding(model)
    size = model.number("vocab_size")
    if rows is not None and size is not None and rows != size:
        found.fatal(f"config.json says vocab_size {size}, {printable(name)} has {rows} rows", "merge again with --vocab_size, or correct config.json")


def rule_head(model: Model, found: Findings) -> None:
    ties, head, (embedding, rows) = is_tied(model), stored_head(model), rows_of_embedding(model)
    if ties is None or not model.tensors or not (model.is_language_model or not model.architecture):
        return
    if ties and head and rows is not None and head != embedding:
        equal = model.directory.equal(head, embedding)
        found.add(equal is False and not model.for_transformers,
                  f"config.json ties head and embedding, but {printable(head)} is stored, too{', and is another' if equal is False else ''}",
                  "transformers uses it, vLLM, SGLang and TGI take the embedding in its place: write tie_word_embeddings false if it is a head of its own")
    elif not ties and not head and model.weights.is_whole and model.is_language_model:
        found.fatal("config.json says that the head is not tied, but there is none", "it would be random: write tie_word_embeddings true, or merge again")


def rule_classifier(model: Model, found: Findings) -> None:
    """The head of a model that gives classes or values, what stands beside it, and a row of it for each. Heads called `score` have a bias for tokens only."""
    name, is_of_tokens = model.architecture, model.architecture.endswith("ForTokenClassification")
    if not (is_of_tokens or name.endswith("ForSequenceClassification")) or not model.is_whole:
        return
    head = ends_in(model.tensors, "score.weight", "classifier.weight", "classifier.out_proj.weight")
    if not head:
        found.fatal(f"architectures names {printable(name)}, but there is no head (score.weight or classifier.weight)",
                    "it would be random: merge again, or name the class that was trained")
        return
    is_score = head.endswith("score.weight")
    others = [head[:head.rfind(".")] + ".bias"] if is_of_tokens or not is_score else []
    if head.endswith(".out_proj.weight"):
        others += [head[:-len("out_proj.weight")] + part for part in ("dense.weight", "dense.bias")]
    others = [one for one in others if one not in model.tensors]
    if others:
        found.add(not is_score, f"the head {printable(head)} is stored without {first_of(others)}",
                  "transformers takes zeros: right if it was trained without" if is_score else "it would be random: merge again, or copy all files")
    labels, shape = model.field("id2label"), model.tensors[head].shape
    count = len(labels) if isinstance(labels, dict) and labels else model.number("num_labels")
    if count is not None and shape[:1] != (count,):
        found.fatal(f"{printable(head)} has {shape[0] if shape else 0} rows, config.json counts {count} labels (id2label, num_labels)", "correct config.json")


# Layers.

def rule_layers(model: Model, found: Findings) -> None:
    """Of families that are not known; rule `names` sees more of the others."""
    count, stored = model.number("num_hidden_layers"), {layer for layer in map(stack_layer_of, model.tensors) if layer is not None}
    if count is None or count < 0 or not stored or model.family.is_whole or not model.weights.is_whole:
        return
    missing = [str(layer) for layer in range(min(count, len(stored) + 100)) if layer not in stored]
    if missing:
        found.fatal(f"layers that config.json counts are not stored: {listed(missing)}", "they would be random: merge again, or correct num_hidden_layers")
    more = count + (model.number("num_nextn_predict_layers") or 0)
    if max(stored) >= more:
        found.doubtful(f"layers up to {max(stored)} are stored, config.json counts {more}", "they would be left out: correct num_hidden_layers")


def rule_prediction(model: Model, found: Findings) -> None:
    """Layers that predict further tokens (MTP): a model without them is whole, but servers that are told of them fail to start."""
    for field in facts("prediction-fields"):
        promised = model.number(field) or 0
        if promised > 0 and model.is_whole and not any(map(predicts_further_tokens, model.tensors)) and \
                max((layer for layer in map(stack_layer_of, model.tensors) if layer is not None), default=-1) < max(model.number("num_hidden_layers") or 0, 0):
            found.doubtful(f"config.json promises {promised} layers that predict further tokens ({field}), none is stored",
                           f"set {field} to 0, or do not ask for speculation")


# Names and shapes of families that are known.

def _is_other_rules(name: str, logical: str) -> bool:
    """Rules of their own look at both ends of the model; value models have other heads."""
    return logical == HEAD or name.endswith("lm_head.weight") or name.startswith(("score.", "classifier."))


def _is_of_other_shape(stored: Optional[Shape], tensor: Expected) -> bool:
    """Stacks of experts are released with either order of the last two dims; rows of an embedding have a rule of their own."""
    expected = tensor.shape
    if stored is None or (len(stored) == len(expected) == 3 and (stored[0], stored[2], stored[1]) == expected):
        return False
    return stored != (stored[:1] + expected[1:] if tensor.logical == EMBEDDING and expected and stored else expected)


def _tell_family(model: Model, places: Places, found: Findings) -> List[str]:
    """Of the family's tensors those that are of another shape, or under another name; returned are those that are missing."""
    missing: List[str] = []
    of_other_name: List[str] = []
    may_lack_embedding = model.for_transformers and stored_head(model) != "" and is_tied(model) is True
    for name, tensor in model.family.expected.items():
        place, is_others = places.of(name, tensor), _is_other_rules(name, tensor.logical)
        if not place.name:
            missing += [name] if not is_others and not tensor.is_optional and not (tensor.logical == EMBEDDING and may_lack_embedding) else ()
        elif (not is_others or (tensor.logical == HEAD and model.is_language_model)) and _is_of_other_shape(place.shape, tensor):
            found.of(f"{place.name} {shape_text(place.shape or ())}, not {shape_text(tensor.shape)}", "shapes are not those of config.json: ",
                     "correct config.json, or merge again with the model's own")
        of_other_name += [f"{place.name}, for {name}"] if place.is_other and not is_others else ()
    if of_other_name:
        found.doubtful(f"names are not those of the Hub: {first_of(of_other_name)}",
                       f"transformers renames them, whether {model.loader.name} does is not checked here")
    return missing


def _missing_optional(model: Model, places: Places) -> Iterator[str]:
    """Optional tensors of a tower, or the same part of all layers, are there together, or none of them. Those of the head of masked language models
    are none there, nor those whose twin is there; the bias of such a head goes by one name or by two."""
    expected = model.family.expected
    is_masked = model.architecture.endswith("ForMaskedLM")
    has_bias = is_masked and any(tensor.logical.startswith("head_bias") and places.of(name, tensor).name for name, tensor in expected.items())
    companies: Dict[str, Tuple[List[str], List[str]]] = {}
    for name, tensor in expected.items():
        if not tensor.is_optional or _is_other_rules(name, tensor.logical):
            continue
        company = numbers_hidden(name) if tensor.logical.startswith("layer.") else tensor.logical.split(".")[0]
        stored, missing = companies.setdefault(company, ([], []))
        stem, _, end = name.rpartition(".")
        twin_name = f"{stem}.{'bias' if end == 'weight' else 'weight'}" if end in ("weight", "bias") else ""
        twin = expected.get(twin_name)
        if places.of(name, tensor).name:
            stored.append(name)
        elif (is_masked and (tensor.logical.startswith("words") or (tensor.logical.startswith("head_bias") and not has_bias))) or \
                (twin is not None and twin.is_optional and places.of(twin_name, twin).name):
            yield name
        else:
            missing.append(name)
    for _, (stored, missing) in sorted(companies.items()):
        if len(stored) >= len(missing):
            yield from missing


def _tell_wrapping(model: Model, found: Findings) -> bool:
    """Phi-4 multimodal is released with its adapters' names."""
    of_adapters = [name for name in model.tensors if is_of_adapter(name)]
    wrapper = wrapper_in(model)
    if of_adapters and model.field("speech_lora") is None and model.field("vision_lora") is None:
        found.fatal(f"tensors have the names that PEFT gives a model with an adapter: {first_of(of_adapters)}",
                    "no loader takes them for the model's: write it again with shardweld merge --backend hf --lora fold")
        return True
    if wrapper:
        found.fatal(f"names of tensors have a wrapper's prefix, {printable(wrapper)}: {printable(next(iter(model.tensors)))} and others",
                    "no loader takes it off: write the model again with shardweld merge --backend hf")
    return wrapper != ""


def _tell_unknown(model: Model, found: Findings) -> None:
    """Of names that no recipe makes: why the family makes nothing of config.json (some fields are left out where a class's default is meant); of a family
    without a recipe those of the tree of modules, where engines look for what transformers saves."""
    fault = model.family.fault
    if model.family.name and fault:
        is_default = "@text_config" in fault or any(model.field(name) is None and name in fault
                                                    for name in ("vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim"))
        found.add(not is_default, f"names and shapes of the family {printable(model.family.name)} cannot be told from config.json: {fault}",
                  "the loader takes a default, with which they are not checked" if is_default else "take it from the model that was trained")
    for name in model.tensors if not model.for_transformers else ():
        ended = f".^.{numbers_hidden(name)}.$."
        if any(run in ended for run in model.family.renamed):
            found.of(name, "transformers saves models of this model_type with other names or shapes of tensors, which engines look for: ",
                     f"write it again with shardweld merge --backend hf{'' if model.family.name else ', and a recipe, or save it with save_pretrained'}")


def rule_names(model: Model, found: Findings) -> None:
    if _tell_wrapping(model, found) or not model.weights.is_whole:
        return
    family = model.family
    if family.roots and model.tensors and not family.is_whole and not any(name.startswith(tuple(family.roots)) for name in model.tensors):
        found.fatal(f"no tensor's name begins with {' or '.join(family.roots)}, as those of the family {printable(family.name)} do: "
                    f"{printable(next(iter(model.tensors)))} and others",
                    "the language model would be random: rename them, or use the config.json of the text model")
    if not family.expected:
        _tell_unknown(model, found)
        return
    places = places_of(model)
    missing = [*_tell_family(model, places, found), *_missing_optional(model, places)]
    if missing:
        found.fatal(f"tensors of the family {printable(family.name)} are missing: {first_of(missing)}{whereabouts(model, missing[0])}", RANDOM)
    more = [name for name in model.tensors if name not in places.known and not is_part_of_codes(name) and not _is_other_rules(name, "")
            and not is_computed(name) and not any(glob_matches(glob, name) for glob in family.passes)]
    # Layers that predict further tokens have more, and stand behind the others.
    patterns = {numbers_hidden(name) for name, tensor in family.expected.items() if tensor.logical.startswith("layer.")}
    count = model.number("num_hidden_layers") if not any(map(predicts_further_tokens, model.tensors)) else None
    layers = ((name, stack_layer_of(name)) for name in more if numbers_hidden(name) in patterns)
    beyond = [name for name, layer in layers if count is not None and layer is not None and layer >= count]
    if beyond:
        found.fatal(f"config.json says num_hidden_layers {count}, but further layers of the same kind are stored: {first_of(beyond)}",
                    "they would be left out, without a word: correct num_hidden_layers")
    elif more:
        found.doubtful(f"the family {printable(family.name)} has no such tensors: {first_of(more)}", "loaders leave them out, or refuse them")


# Tensors that no line of a recipe stands for: towers, which recipes let pass, and models that no recipe knows. It is known which tensors all layers of a
# stack have, how many layers config.json counts, and which tensors a family is never without.

_STACKS = frozenset("layers layer blocks block h resblocks conformer merger_list deepstack_merger_list".split())


def _spot_of(name: str) -> Optional[Tuple[str, int, str]]:
    """"tower.layers.", 3 and "norm.weight"; None for a name of no stack, or of one whose layers have numbered parts of their own."""
    words = name.split(".")
    at = next((i for i in range(len(words) - 2) if words[i] in _STACKS and is_number(words[i + 1])), None)
    return None if at is None or is_number(words[at + 2]) else (".".join(words[:at + 1]) + ".", int(words[at + 1]), ".".join(words[at + 2:]))


def _stacks_of(model: Model) -> Dict[str, Dict[int, Set[str]]]:
    """What each layer of each stack has, by the weights that tensors are parts of, however they are encoded; without what only some layers have."""
    stacks: Dict[str, Dict[int, Set[str]]] = {}
    known = places_of(model).known
    for name in model.tensors:
        if name in known or predicts_further_tokens(name) or is_computed(name) or name.endswith("relative_attention_bias.weight"):
            continue
        module = name[:name.rfind(".")]
        spot = _spot_of(name if not is_part_of_codes(name) else module + ".weight" if module in model.modules else "")
        if spot:
            stacks.setdefault(spot[0], {}).setdefault(spot[1], set()).add(spot[2])
    return stacks


def _without_company(stack: str, parts: Set[str]) -> Iterator[str]:
    """Parts that no layer of a tower has, though it has others that stand beside such a part in every tower."""
    biased = facts("tower-companies-biased")
    rows = [(end, *row.split("=")) for end, some in ((".weight", facts("tower-companies") + biased), (".bias", biased)) for row in some]
    for name in sorted(parts):
        for end, part, others in rows:
            if name == part + end or name.endswith("." + part + end):
                above = name[:-len(part + end)]
                for words in (other.split("|") for other in others.split(",")):
                    if not any(above + word + end in parts for word in words):
                        yield f"{stack}*.{above}{words[0]}{end}"


def _look_at_tower(model: Model, field: str, found: Findings) -> None:
    """A tower that config.json describes is there, with all of its layers: the fewest that one of the fields says, in its largest stack."""
    called, words = TOWERS[field]
    settings = model.field(field)
    settings = object_of(model.config.get("thinker_config")).get(field) if settings is None else settings
    if not isinstance(settings, dict) or not settings:
        return
    names = [name for name in model.tensors if words.search(name)]
    if not names:
        found.fatal(f"config.json has a {field}, but no tensor of such a tower is stored",
                    "it would be random: copy it from the model that was trained, or use the config.json of the text model")
        return
    counts: Dict[str, int] = {}
    for stack, number, _ in filter(None, map(_spot_of, names)):
        if words.search(stack):
            counts[stack] = max(counts.get(stack, 0), number + 1)
    fields: List[Any] = [settings.get(name) for name in ("depth", "num_hidden_layers", "encoder_layers", "num_layers", "n_layers", "layers", "vt_num_hidden_layers")]
    stated = min((value for value in fields if isinstance(value, int) and not isinstance(value, bool)), default=None)
    stack = max(sorted(counts), key=lambda one: counts[one], default="")
    if stack and stated is not None and stated > counts[stack]:
        found.fatal(f"config.json counts {stated} layers of the {called}, {counts[stack]} are stored ({printable(stack)}*)",
                    "the others would be random: merge again, or copy all files")


def _loads_towers(model: Model) -> bool:
    """Classes of text models load no tower, whatever config.json describes."""
    return not model.architecture.endswith("ForCausalLM")


def _has_passing_tower(model: Model) -> bool:
    """Whether a tower passes that is loaded. Classes without a head have no `model.` in front."""
    return _loads_towers(model) and any(is_of_tower(name) and any(glob_matches(glob, name) or glob_matches(glob, "model." + name) for glob in model.family.passes)
                                        for name in model.tensors)


def rule_parts(model: Model, found: Findings) -> None:
    if not model.is_whole:
        return
    missing: List[str] = []
    for stack, layers in sorted(_stacks_of(model).items()):
        if not is_of_tower(stack) or _loads_towers(model):
            # Enough is half of them in a tower, whose layers are of one kind, and more elsewhere.
            missing += lacking(stack, layers, (len(layers) + (0 if is_of_tower(stack) else 1)) / 2)
            missing += _without_company(stack, layers[min(layers)]) if is_of_tower(stack) else ()
    for field in TOWERS if _loads_towers(model) else ():
        _look_at_tower(model, field, found)
    # Of each entry one end of a name is there: of towers where there is one, and of what the family has, which some checkpoints lack.
    has_towers = _has_passing_tower(model)
    for entry in model.family.needs:
        endings = entry.split("|")
        is_meant = has_towers or ends_in(model.family.expected, *endings)
        stems = tuple("." + ending[:ending.rfind(".")] for ending in endings)
        if is_meant and not ends_in(model.tensors, *endings) and not any(module.is_quantised and name.endswith(stems) for name, module in model.modules.items()):
            missing.append(entry)
    found.fatal_for(missing, "tensors are missing that models of this kind have: ", RANDOM)


def rule_limits(model: Model, found: Findings) -> None:
    family = printable(model.family.name)
    if not model.is_whole:
        return
    if not family:
        found.doubtful("no family of this model_type is known here: names and shapes of its tensors are held against each other only", TRY)
    elif not model.family.is_whole:
        found.doubtful(f"names and shapes of the layers of the family {family} are not checked, but that all have the same", TRY)
    elif not model.family.needs and _has_passing_tower(model):
        found.doubtful(f"names and shapes of the towers of the family {family} are not checked, but that all layers have the same", TRY)

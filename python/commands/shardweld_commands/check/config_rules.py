"""What config.json says by itself, and the files between text and numbers: the tokenizer, chat templates, generation_config.json."""
import itertools
import json
import math
from typing import Any, Dict, Iterator, Optional, Set, Tuple

from ..files import MARK, is_number, is_whole, list_of, object_of, parsed, whole
from ..text import listed, printable
from .known import facts, known_words, nonfinite_in, taken_instead
from .model import Findings, Model

FROM_TRAINED = "take it from the model that was trained"
COPY_FROM_TRAINED = "copy it again from the model that was trained"
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings")


def shown(value: Any) -> str:
    """A value of config.json, as it stands there."""
    return printable(json.dumps(value))


def rule_config(model: Model, found: Findings) -> None:
    text = model.directory.config_text
    if not text:
        found.fatal("config.json is missing", "put the model's config.json there")
    elif text.startswith(MARK.encode()):
        found.fatal("config.json begins with a byte order mark, which no loader's parser takes", "save it as UTF-8 without one")
    elif not isinstance(parsed(text), dict):
        found.fatal("config.json is not a JSON object within the limits", COPY_FROM_TRAINED)


def rule_numbers(model: Model, found: Findings) -> None:
    """Python's parser takes NaN and Infinity, Rust's refuses the file."""
    is_rust = model.loader.name == "tgi"
    odd = list(nonfinite_in(model.config))
    path = ".".join(next((path for path, number in odd if is_rust or math.isnan(number)), ()))
    used = ".".join(next((path for path, _ in odd if known_words("computed-with").intersection(itertools.takewhile(lambda part: not str(part).isdigit(), path))), ()))
    if used and not is_rust:
        found.fatal(f"config.json has NaN or Infinity in {printable(used)}",
                    "Python reads it, and all that the model gives is NaN or without meaning: take the number from the model that was trained")
    elif path and is_rust:
        found.fatal(f"config.json has NaN or Infinity in {printable(path)}, which TGI's parser refuses",
                    'write a number, null, or {"__float__": "Infinity"} as transformers does')
    elif path:
        found.doubtful(f"config.json has NaN in {printable(path)}", "Python reads it, and computes with it: write a number")


def rule_sizes(model: Model, found: Findings) -> None:
    for name in SIZES:
        value = model.field(name)
        if value is not None and not isinstance(value, (list, dict)) and not is_whole(value):
            found.fatal(f"config.json says {name} {shown(value)}, which is no whole number", FROM_TRAINED)
    text = model.config.get("text_config")
    inner = text if isinstance(text, dict) else model.config
    pad, size = whole(inner.get("pad_token_id")), whole(inner.get("vocab_size"))
    if pad is not None and size is not None and pad >= size:  # the embedding has no row beyond its end, which torch refuses
        found.add(model.for_transformers, f"config.json says pad_token_id {pad}, vocab_size {size}", "transformers refuses it: write null, or a token that there is")


def _wrong_kinds(config: Dict[str, Any], above: str = "") -> Iterator[str]:
    """Kinds of values of one configuration, and of those inside of it. Rule `sizes` has told of sizes."""
    stated = config.get("model_type")
    for name, value in config.items():
        if isinstance(value, dict) and name.endswith("_config") and name != "quantization_config":
            yield from _wrong_kinds(value, f"{above}{name}.")
            continue
        taken = taken_instead(stated if isinstance(stated, str) else "", name, value)
        if taken and (value is None or name not in SIZES):
            yield f"{above}{name} {shown(value)}, not {taken}"


def _wrong_words(model: Model, config: Dict[str, Any]) -> Iterator[str]:
    """Words of one configuration that transformers looks up."""
    for name in ("dtype", "torch_dtype"):
        if isinstance(config.get(name), str) and config[name].replace("torch.", "", 1) not in known_words("dtypes"):
            yield f"{name} {shown(config[name])}, no dtype of torch"
    function = config.get("hidden_act")
    if model.for_transformers and isinstance(function, str) and function not in known_words("activations"):
        yield f"hidden_act {shown(function)}, no function that transformers knows"
    chosen = whole(config.get("num_experts_per_tok"))
    for name in ("num_experts", "num_local_experts", "n_routed_experts"):
        experts = whole(config.get(name))
        if chosen is not None and experts is not None and 0 < experts < chosen:
            yield f"num_experts_per_tok {chosen} of {experts} experts"
    kinds, count = config.get("layer_types"), config.get("num_hidden_layers")
    further = model.number("num_nextn_predict_layers") or 0  # some count layers that predict further tokens, too
    if isinstance(kinds, list) and is_whole(count) and count not in (len(kinds), len(kinds) - further):
        yield f"layer_types of {len(kinds)} layers, num_hidden_layers {count}"


def rule_types(model: Model, found: Findings) -> None:
    if model.model_type not in model.family.transformers_types or model.has_own_code:
        return  # the loader makes no configuration of transformers' own
    wrong = [*_wrong_kinds(model.config), *_wrong_words(model, model.config), *_wrong_words(model, object_of(model.config.get("text_config")))]
    quantised = model.config.get("quantization_config")
    if quantised is not None and not isinstance(quantised, dict):
        wrong.append(f"quantization_config {shown(quantised)}, not an object")
    found.fatal_for(wrong, "config.json says ", f"transformers' configuration refuses it: {FROM_TRAINED}")


def rule_class(model: Model, found: Findings) -> None:
    name = model.architecture
    if not model.directory.config_text:
        return
    if not name:
        found.add(not model.for_transformers, "config.json names no class in architectures", 'add the class that was trained, such as ["LlamaForCausalLM"]')
    elif not model.loader.knows_class(name, model.family):
        # The loader would know the class of a model type that it knows.
        may_be_new = model.has_own_code or (model.family.name != "" and model.model_type not in model.family.transformers_types)
        found.add(not may_be_new and not model.for_transformers, f"architectures names {printable(name)}, a class that {model.loader.name} does not know",
                  "a newer version or a plugin may know it: try it with the loader" if may_be_new else
                  "write the class of the model, without what a training framework put around it")


def rule_model_type(model: Model, found: Findings) -> None:
    if not model.directory.config_text:
        return
    if not model.model_type:
        found.add(model.loader.name in ("transformers", "tgi"), "config.json has no model_type", 'add the model\'s, such as "llama"')
    elif not model.loader.knows_type(model.model_type, model.family) and not model.has_own_code:
        is_unknown = not model.family.name
        found.add(is_unknown, f"config.json says model_type {printable(model.model_type)}, which {model.loader.name} does not know without the model's own code",
                  "correct it, or add auto_map and the code of the model" if is_unknown else "copy the code of the model that was trained, or use a newer version")


def rule_code(model: Model, found: Findings) -> None:
    """"module--Class" names another repository; "file.Class" a file of this one."""
    if not model.has_own_code:
        return
    texts = [text for text in model.config["auto_map"].values() if isinstance(text, str) and text and "--" not in text]
    missing = [file for file in (text.split(".")[0] + ".py" for text in texts) if file not in model.directory.files]
    if missing:
        is_known = model.model_type != "" and model.loader.knows_type(model.model_type, model.family)
        found.add(not is_known, f"auto_map names code that is not there: {listed(missing)}", "copy it from the model that was trained, or remove auto_map")
    else:
        found.doubtful("config.json names code of its own (auto_map)", "start with --trust_remote_code, or remove auto_map if the class is the library's")


# Rotary embeddings. Sources: transformers 5.24 modeling_rope_utils (validate_rope, ROPE_INIT_FUNCTIONS), run; vLLM 0.33 layers/rotary_embedding and
# transformers_utils/config (patch_legacy_rope_type), SGLang 0.5.23 layers/rotary_embedding/factory, read.

def _pairs_of(rope: Dict[str, Any], around: Dict[str, Any]) -> Optional[int]:
    """How many pairs of dims turn."""
    head, hidden, heads = (whole(around.get(name)) for name in ("head_dim", "hidden_size", "num_attention_heads"))
    dims = head if head is not None else hidden // heads if hidden is not None and heads is not None and heads > 0 else 0
    part: Any = next(filter(is_number, (around.get("partial_rotary_factor"), rope.get("partial_rotary_factor"))), 1)
    return int(dims * part) // 2 if 2 <= dims * part < 1e6 else None


def _faults_of_rope(model: Model, rope: Dict[str, Any], path: str, around: Dict[str, Any]) -> Iterator[Tuple[str, str]]:
    """Of one form: what is wrong, and what to do."""
    stated, theta = rope.get("rope_type", rope.get("type")), rope.get("rope_theta")
    if theta is not None and not is_number(theta):
        yield f"{path} has rope_theta {shown(theta)}, which is no number", FROM_TRAINED
    if stated is None:
        if "rope_type" in rope and model.for_transformers:
            yield f"{path} has rope_type null", "remove it, or say which form it is"
        elif "factor" in rope:
            yield f"{path} has a factor, but no rope_type", "say which form it is: linear, yarn, ..."
        return
    form, older = stated if isinstance(stated, str) else shown(stated), rope.get("type")
    is_same = not isinstance(older, str) or older == form or (older, form) in (("su", "longrope"), ("mrope", "default"))
    if not is_same and not model.for_transformers:
        yield f"{path} has rope_type {printable(form)} and type {printable(str(older))}", "remove the one that is wrong"
    kind = model.model_type
    needed = {one.split("=")[0]: one.partition("=")[2].split(",") for one in facts("rope-forms") + [
        one for one in facts("rope-forms-of-some") if one.split("=")[0] in model.loader.rope_forms]}
    is_taken = form in needed
    if model.for_transformers:  # older names of forms, which it takes in some families only
        is_taken = is_taken and (form != "su" or kind.startswith("phi")) and (form != "mrope" or "vl" in kind or "omni" in kind)
    if not is_taken:
        yield f"{path} has rope_type {printable(form)}, which {model.loader.name} does not compute", "correct it: default, linear, dynamic, yarn, longrope or llama3"
        return
    is_by_alpha = form == "dynamic" and not model.for_transformers and is_number(rope.get("alpha"))
    for key in filter(None, needed[form]):
        value: Any = rope.get(key)
        is_usable = list_of(value) if key.endswith("_section") or key.startswith(("short_", "long_")) else is_number(value) and value > 0
        if not is_usable and not is_by_alpha:
            yield f"{path} ({form}) has no usable {key}", FROM_TRAINED
    pairs = _pairs_of(rope, around) if form in ("longrope", "su") else None
    for key in ("short_factor", "long_factor"):
        factors = rope.get(key)
        if pairs is not None and isinstance(factors, list) and len(factors) != pairs:
            yield f"{path}.{key} has {len(factors)} factors for {pairs} pairs of dims", FROM_TRAINED


def _faults_of_ropes(model: Model, config: Dict[str, Any], above: str = "") -> Iterator[Tuple[str, str]]:
    """Each `rope_parameters` and `rope_scaling`, wherever in the configuration they stand: one for the model, or one for each kind of layer."""
    for key, value in config.items():
        path = above + key
        if key not in ("rope_parameters", "rope_scaling"):
            if isinstance(value, dict):
                yield from _faults_of_ropes(model, value, path + ".")
        elif value is not None and not isinstance(value, dict):
            yield f"{path} is no object", "write null, or rope_type and what it needs"
        elif value is not None:
            inner = {f"{path}.{name}": one for name, one in value.items() if isinstance(one, dict)}
            for name, rope in (inner or {path: value}).items():
                yield from _faults_of_rope(model, rope, name, config)


def rule_rope(model: Model, found: Findings) -> None:
    for text, hint in _faults_of_ropes(model, model.config):
        found.add(not model.has_own_code, f"config.json: {text}", hint)


# Texts.

def rule_tokenizer(model: Model, found: Findings) -> None:
    if not model.directory.tokenizer.is_there:
        found.add(not model.for_transformers, "no tokenizer lies beside the weights", "copy the tokenizer's files from the model that was trained")
    if model.directory.tokenizer.fault:
        found.fatal(model.directory.tokenizer.fault, COPY_FROM_TRAINED)


def generates(model: Model) -> bool:
    """Encoders generate nothing, nor do models that sentence-transformers' modules.json makes embedding models of, whatever class they are of."""
    return "modules.json" not in model.directory.files and (not model.architecture or model.is_language_model)


def rule_template(model: Model, found: Findings) -> None:
    files, tokenizer, loader = model.directory.files, model.directory.tokenizer, model.loader.name
    own = tokenizer.config.get("chat_template")
    in_tokenizer = isinstance(own, (str, list)) and bool(own)
    reads_json = loader == "tgi" or "preprocessor_config.json" in files or "processor_config.json" in files  # the processor is made
    reads_jinja = loader != "tgi"
    if in_tokenizer or ("chat_template.json" in files and reads_json) or ("chat_template.jinja" in files and reads_jinja) or not tokenizer.is_there:
        return
    if "chat_template.jinja" in files:
        found.doubtful(f"{loader} does not read chat_template.jinja, and there is no other chat template",
                       "put the template into tokenizer_config.json (chat_template), or give the server one")
    elif "chat_template.json" in files:
        found.doubtful(f"{loader} reads chat_template.json for models with a processor only, and there is no other chat template", "save it as chat_template.jinja")
    elif "additional_chat_templates" in files:
        found.doubtful("additional_chat_templates has no default chat template", "chat requests must name one: copy chat_template.jinja, too")
    elif not model.for_transformers and generates(model):
        found.doubtful("there is no chat template", "chat requests will fail; copy chat_template.jinja from the model that was trained, or give the server one")


def _refused_setting(settings: Dict[str, Any]) -> str:
    """A setting that GenerationConfig refuses, and not only remarks upon; "" for none."""
    def number(name: str) -> int:
        return int(settings[name]) if is_whole(settings.get(name)) else 1

    early, cache = settings.get("early_stopping"), settings.get("cache_implementation")
    answers, beams = number("num_return_sequences"), number("num_beams")
    if number("max_new_tokens") <= 0:
        return f"max_new_tokens {settings['max_new_tokens']}"
    if early is not None and not isinstance(early, bool) and early != "never":
        return f"early_stopping {shown(early)}"
    if cache is not None and cache not in facts("caches"):
        return f"cache_implementation {shown(cache)}"
    if answers > beams and (beams > 1 or settings.get("do_sample") is not True):
        return f"num_return_sequences {answers} with " + (f"{beams} beams" if beams > 1 else "neither sampling nor beams")
    return "" if settings.get("compile_config") is None else "compile_config, which no file can hold"


def rule_generation(model: Model, found: Findings) -> None:
    text = model.directory.generation_text
    settings = parsed(text)
    if not text:
        if generates(model):
            found.doubtful("generation_config.json is missing",
                           "sampling and end tokens are the library's defaults; copy the file from the model that was trained")
    elif settings is ...:
        found.doubtful("generation_config.json is not JSON, and left out", COPY_FROM_TRAINED)
    elif not isinstance(settings, dict):
        found.fatal("generation_config.json is not a JSON object", COPY_FROM_TRAINED)
    elif _refused_setting(settings) and model.loader.name != "tgi":
        found.fatal(f"generation_config.json says {_refused_setting(settings)}", "transformers' GenerationConfig refuses it: correct it, or remove it")


def rule_end(model: Model, found: Findings) -> None:
    """Generation ends at the tokens of generation_config.json, which config.json stands for; chats end with the tokenizer's."""
    tokenizer = model.directory.tokenizer
    own = object_of(parsed(model.directory.generation_text)).get("eos_token_id")
    stated = model.field("eos_token_id") if own is None else own
    ends: Set[int] = {number for number in (stated if isinstance(stated, list) else [stated]) if is_whole(number)}
    if generates(model) and ends and tokenizer.eos_number is not None and tokenizer.eos_number not in ends:
        file = "config.json" if own is None else "generation_config.json"
        found.doubtful(f"{file} ends generation at eos_token_id {', '.join(map(str, sorted(ends)))}, the tokenizer's eos_token {printable(tokenizer.eos)} is "
                       f"{tokenizer.eos_number}", "answers would end too late or never: make them agree")

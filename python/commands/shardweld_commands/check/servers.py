"""vLLM 0.33, SGLang 0.5.23 and TGI: read, not run. Which files of weights they take, and what each knows beside what transformers does."""
import math
from typing import Set

from ..text import printable
from .model import Findings, Loader, Model, Weights
from .weights import COPY_AGAIN, Choice


def takes_safetensors(files: Set[str]) -> bool:
    return any(name.endswith(".safetensors") for name in files) or "model.safetensors.index.json" in files


def choose(model: Model, found: Findings) -> Weights:
    """All files, or those of an index."""
    choice = Choice(model, found)
    return choice.take(choice.by_index(), True) if model.directory.index else choice.take(choice.names)


def choose_for_vllm(model: Model, found: Findings) -> Weights:
    """Mistral's own files go before all others: their names are not checked, how many elements they have is."""
    own = [file for file in model.directory.weights if file.name.startswith("consolidated") and file.name.endswith(".safetensors")]
    if not own:
        return choose(model, found)
    choice = Choice(model, found)
    choice.weights.is_whole = False
    for file in own:
        if file.fault:
            found.fatal(f"{printable(file.name)}: {file.fault}", COPY_AGAIN)
    elements = {file.name: sum(math.prod(tensor.shape) for tensor in file.tensors.values()) for file in model.directory.weights}
    mine = sum(elements[file.name] for file in own)
    text = f"vLLM loads {printable(own[-1].name)} and no other file of weights"
    if 2 * mine < sum(elements.values()) - mine:
        found.fatal(f"{text}, but it has the smaller part of the elements", "remove it, or give --load-format hf")
    else:
        found.doubtful(f"{text}; its names are not checked", "give --load-format hf for the other files, or remove it")
    return choice.weights


def choose_for_sglang(model: Model, found: Findings) -> Weights:
    """Beside one other file Mistral's own is left alone."""
    choice = Choice(model, found)
    if model.directory.index is None and len(choice.names) == 2:
        return choice.take(choice.names - {"consolidated.safetensors"})
    return choose(model, found)


def choose_for_tgi(model: Model, found: Findings) -> Weights:
    """All files but those of trainers; an index is not read."""
    choice = Choice(model, found)
    return choice.take((name for name in choice.names if not any(word in name for word in ("arguments", "args", "training"))), twice="TGI refuses it")


VLLM = Loader("vllm", "vLLM", choose_for_vllm, takes_safetensors, ("ntk", "deepseek_llama_scaling", "bailing_mrope", "mllama4", "openpangu", "telechat3-yarn"))
SGLANG = Loader("sglang", "SGLang", choose_for_sglang, takes_safetensors)
TGI = Loader("tgi", "TGI", choose_for_tgi, takes_safetensors)  # it makes no configuration of transformers', and knows classes by the model type

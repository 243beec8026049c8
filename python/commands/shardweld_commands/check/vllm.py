"""vLLM 0.33: read, not run."""
import math

from ..text import printable
from .model import Findings, Loader, Model, Weights
from .weights import COPY_AGAIN, Choice, choose_for_server, takes_safetensors


def choose(model: Model, found: Findings) -> Weights:
    """Mistral's own files go before all others: their names are not checked, how many elements they have is."""
    own = [file for file in model.directory.weights if file.name.startswith("consolidated") and file.name.endswith(".safetensors")]
    if not own:
        return choose_for_server(model, found)
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


LOADER = Loader("vllm", "vLLM", choose, takes_safetensors, ("ntk", "deepseek_llama_scaling", "bailing_mrope", "mllama4", "openpangu", "telechat3-yarn"))

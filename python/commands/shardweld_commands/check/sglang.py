"""SGLang 0.5.23: read, not run. It asks for what vLLM does."""
from .model import Findings, Loader, Model, Weights
from .weights import Choice, choose_for_server, takes_safetensors


def choose(model: Model, found: Findings) -> Weights:
    """Beside one other file Mistral's own is left alone."""
    choice = Choice(model, found)
    if model.directory.index is None and len(choice.names) == 2:
        return choice.take(choice.names - {"consolidated.safetensors"})
    return choose_for_server(model, found)


LOADER = Loader("sglang", "SGLang", choose, takes_safetensors)

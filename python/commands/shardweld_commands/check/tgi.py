"""TGI: read, not run. It makes no configuration of transformers' and knows classes by the model type."""
from .model import Findings, Loader, Model, Weights
from .weights import Choice, takes_safetensors


def choose(model: Model, found: Findings) -> Weights:
    """All files but those of trainers; an index is not read."""
    choice = Choice(model, found)
    return choice.take((name for name in choice.names if not any(word in name for word in ("arguments", "args", "training"))), twice="TGI refuses it")


LOADER = Loader("tgi", "TGI", choose, takes_safetensors)

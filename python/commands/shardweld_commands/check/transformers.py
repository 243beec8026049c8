"""transformers 5.24, with compressed-tensors 0.20: run on a CPU with small models of some forty families, whole and harmed."""
from typing import Set

from ..text import listed, printable
from .model import Findings, Loader, Model, Weights
from .weights import Choice


def takes_safetensors(files: Set[str]) -> bool:
    """Only where they have the name that it looks for, or no pickle has."""
    return bool(files & {"model.safetensors", "model.safetensors.index.json"}) or (
        not files & {"pytorch_model.bin", "pytorch_model.bin.index.json"} and any(name.endswith(".safetensors") for name in files))


def choose(model: Model, found: Findings) -> Weights:
    """model.safetensors goes before the index, and all that neither names is left alone. With PEFT installed an adapter's settings go before all weights."""
    choice, index, named = Choice(model, found), model.directory.index, model.config.get("transformers_weights")
    whole, index_file = choice.whole_file, choice.index_file
    if "adapter_config.json" in model.directory.files:
        if whole not in choice.names and index is None:
            found.fatal("the directory holds an adapter (adapter_config.json) and no model", "fold it into its base: shardweld merge DIR OUT --base MODEL --lora fold")
        else:
            found.doubtful("adapter_config.json lies beside the weights: transformers with PEFT loads the base model that it names, and the adapter",
                           "remove it if the weights are whole")
    if isinstance(named, str):
        if named not in choice.names:
            choice.weights.is_whole = False
            found.doubtful(f"config.json names {printable(named)} in transformers_weights, which is not checked", "try it with transformers itself")
        return choice.take({named} & choice.names)
    if whole in choice.names:
        if index and any(file != whole for file in index.file_of.values()):
            found.fatal(f"{whole} lies beside the files that {index_file} names: a stale file, which is loaded in their place",
                        f"remove {whole}, or the index and its files")
        return choice.take({whole})
    if index:
        chosen = choice.by_index()
        if not index.fault and not isinstance(index.metadata, dict):
            found.fatal(f"{index_file} has no `metadata` that is an object", 'transformers refuses it: write "metadata": {}')
        return choice.take(chosen, not index.fault)
    if choice.names and not choice.has_told:
        found.fatal(f"there is neither {whole} nor {index_file}, only {listed(sorted(choice.names))}",
                    "copy the index too, or rename a single file to model.safetensors")
    return choice.take(())


LOADER = Loader("transformers", "transformers", choose, takes_safetensors)

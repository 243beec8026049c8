"""Which files of weights are read, and what is found in them: of several files that lie beside each other loaders take others, and an index binds only
some of them. Each loader's module says which it takes.

Sources: transformers 5.24 modeling_utils (_get_resolved_checkpoint_files) and utils/hub (get_checkpoint_shard_files), run; vLLM 0.33
model_loader/default_loader and weight_utils, SGLang 0.5.23 model_loader/loader and weight_utils, TGI utils/hub and utils/weights, read.
"""
from typing import Dict, Iterable, Set

from ..text import listed, printable
from .model import Findings, Model, Weights, first_of

COPY_AGAIN = "merge it again, or copy it again from where it was written"


class Choice:
    """Of the files of a directory those that one loader reads."""

    def __init__(self, model: Model, found: Findings) -> None:
        self.model, self.found, self.weights = model, found, Weights()
        self.directory = model.directory
        self.names: Set[str] = {file.name for file in self.directory.weights}
        self.is_pickled = any(name.endswith(".bin") for name in self.names) and not any(name.endswith(".safetensors") for name in self.names)
        self.whole_file = "pytorch_model.bin" if self.is_pickled else "model.safetensors"
        self.index_file = self.whole_file + ".index.json"
        self.n_before = len(found.out)

    @property
    def has_told(self) -> bool:
        return len(self.found.out) > self.n_before

    def by_index(self) -> Set[str]:
        """The files that the index names."""
        index = self.directory.index
        if index is None or index.fault:
            self.found.fatal(index.fault if index else "", COPY_AGAIN)
            self.weights.is_whole = False
            return set()
        named = set(index.file_of.values())
        missing = sorted(named - self.names)
        if missing:
            self.weights.is_whole = False
            is_one = len(missing) == 1
            self.found.fatal(f"{listed(missing)} {'is' if is_one else 'are'} missing, though {self.index_file} names {'it' if is_one else 'them'}",
                             "copy all files of the model")
        return named & self.names

    def take(self, chosen: Iterable[str], is_by_index: bool = False, twice: str = "one of them is loaded over the other") -> Weights:
        """What the chosen files hold. `twice`: what the loader does with a tensor that is in two of them."""
        names = sorted(chosen)
        if not names and not self.has_told:
            self.weights.is_whole = False
            other = next((name for name in sorted(self.directory.files) if name.endswith((".bin", ".pt", ".index.json"))), "")
            if other and self.model.for_transformers:
                self.found.fatal(f"there is neither model.safetensors nor pytorch_model.bin, nor an index of one, only {printable(other)}",
                                 "transformers takes no other names: rename it if it is the model")
            elif other:
                self.found.doubtful(f"weights are not safetensors ({printable(other)}), and not checked", "write safetensors with shardweld merge --backend hf")
            else:
                self.found.fatal("there is no file of weights", "merge it again, or copy all files")
        if self.is_pickled and names:
            self.found.doubtful(f"weights are pickles ({printable(names[0])}), which loaders may refuse, or convert first",
                                "write safetensors with shardweld merge --backend hf")
        file_of: Dict[str, str] = {}
        in_two = ""
        for file in sorted((one for one in self.directory.weights if one.name in names), key=lambda one: one.name):
            if file.fault:
                self.found.fatal(f"{printable(file.name)}: {file.fault}", COPY_AGAIN)
            if file.unknown:
                self.found.doubtful(f"{printable(file.name)}: {file.unknown}, not checked", "try it with the loader itself")
            self.weights.is_whole = self.weights.is_whole and not file.fault and not file.unknown
            self.weights.metadata.update(file.metadata)
            for tensor in sorted(file.tensors):
                if tensor in file_of and not in_two:
                    in_two = f"tensor {printable(tensor)} is in {printable(file_of[tensor])} and in {printable(file.name)}"
                file_of.setdefault(tensor, file.name)
            self.weights.tensors.update(file.tensors)
        if in_two:
            self.found.fatal(in_two, f"{twice}: remove the file that is not the model's")
        # Loaders go by the files that an index names, not by what it says is in them.
        index = self.directory.index.file_of if self.directory.index and is_by_index and self.weights.is_whole else {}
        absent = [f"{tensor} in {file}" for tensor, file in index.items() if tensor not in self.weights.tensors and file in self.names]
        if absent:
            is_known = bool(self.model.family.expected)
            self.found.add(not is_known, f"{self.index_file} names tensors that are not there: {first_of(absent)}",
                           "only tensors that are in the files are loaded" if is_known else "they would be random: merge it again, or copy all files")
        return self.weights


def rule_weights(model: Model, found: Findings) -> None:
    model.take(model.loader.choose(model, found))

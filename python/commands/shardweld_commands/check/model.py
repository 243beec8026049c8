"""What rules share: the directory with its configuration parsed, the weights that the loader reads, what the family has, and where findings go."""
import functools
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..command import ask
from ..files import list_of, object_of, parsed, text_of, whole
from ..text import printable
from .known import known_words, plain, without_head
from ..headers import Stored
from .reading import Directory
from .scheme import Module, Scheme, modules_of


Shape = Tuple[int, ...]


class Finding(NamedTuple):
    """One thing that is wrong. `is_fatal`: it would not load, or would load wrong values."""
    is_fatal: bool
    rule: str
    text: str
    hint: str


def first_of(names: Sequence[str]) -> str:
    """"layer.weight and 31 more"."""
    return printable(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


class Findings:
    """Those of one rule. What is to be said of many tensors is said once, by the first of them."""

    def __init__(self, rule: str, out: List[Finding]) -> None:
        self.rule, self.out = rule, out
        self.names: Dict[Tuple[str, str, str], List[str]] = {}

    def add(self, is_fatal: bool, text: str, hint: str) -> None:
        self.out.append(Finding(is_fatal, self.rule, text, hint))

    def fatal(self, text: str, hint: str) -> None:
        self.add(True, text, hint)

    def doubtful(self, text: str, hint: str) -> None:
        self.add(False, text, hint)

    def of(self, name: str, text: str, hint: str, behind: str = "") -> None:
        """What is fatally wrong with a tensor, as it may be with others."""
        self.names.setdefault((text, hint, behind), []).append(name)

    def fatal_for(self, names: Iterable[str], text: str, hint: str) -> None:
        for name in names:
            self.of(name, text, hint)

    def end(self) -> None:
        for (text, hint, behind), names in self.names.items():
            self.fatal(text + first_of(names) + behind, hint)


def ends_in(names: Iterable[str], *endings: str) -> str:
    """The first name that ends in one of them, in whole components; "": none."""
    behind_dots = tuple("." + ending for ending in endings)
    return next((name for name in names if name in endings or name.endswith(behind_dots)), "")


# The family.

@dataclass(frozen=True)
class Expected:
    """A tensor that the model's family has."""
    shape: Shape
    is_optional: bool = False  # models without it are whole
    is_linear: bool = False    # the weight of a linear layer
    spellings: Tuple[str, ...] = ()  # other names in use on the Hub, and last that in the tree of transformers' modules
    logical: str = ""          # the recipe's tensor that it is, or is a part of ("layer.0.qkv")


@dataclass
class Family:
    """What the recipe for config.json makes of it: `shardweld recipes --config DIR --json`."""
    name: str = ""   # "": no recipe is known
    fault: str = ""  # why it makes nothing of config.json
    expected: Dict[str, Expected] = field(default_factory=dict)
    transformers_types: FrozenSet[str] = frozenset()
    module_parts: Dict[str, List[List[str]]] = field(default_factory=dict)  # by logical tensor: parts of it, each with its names
    passes: List[str] = field(default_factory=list)  # globs of names that it lets pass
    needs: List[str] = field(default_factory=list)   # ends of names that are there; "|" between alternatives
    roots: List[str] = field(default_factory=list)   # how names of the language model begin, where all of them pass
    renames: List[List[str]] = field(default_factory=list)  # beginnings of names in the tree of modules, and on the Hub
    renamed: List[str] = field(default_factory=list)  # without a recipe: parts of names of the tree of modules that transformers saves otherwise

    @property
    def is_whole(self) -> bool:
        """Recipes of some composite models know the embedding, and let the rest pass."""
        return any(tensor.logical.startswith("layer.") for tensor in self.expected.values())

    def name_in_tree(self, name: str) -> str:
        """Of a module or tensor of the Hub, as the tree of modules has it."""
        rules = [(module, hub) for module, hub in self.renames if name.startswith(hub)]
        module, hub = max(rules, key=lambda rule: len(rule[1]), default=("", ""))
        return module + name[len(hub):]


@functools.lru_cache(maxsize=1)
def family_of(directory: str) -> Family:
    """Nothing is said of what no recipe knows, and what is wrong with config.json is told by rules. Failed where the program does not answer."""
    told = ask(["recipes", "--config", directory])
    expected = {row["name"]: Expected(tuple(row["shape"]), row["optional"], row["linear"], tuple(row["spellings"]), row["logical"]) for row in told["tensors"]}
    return Family(told["recipe"], told["fault"], expected, frozenset(told["transformers_types"]), told["module_parts"],
                  **{name: told[name] for name in ("passes", "needs", "roots", "renames", "renamed")})


# Loaders and rules.

@dataclass
class Weights:
    """The tensors of those files of weights that a loader takes."""
    tensors: Dict[str, Stored] = field(default_factory=dict)
    metadata: Dict[str, str] = field(default_factory=dict)  # of all files
    is_whole: bool = True  # all of them can be read: what is not among them is missing


@dataclass(frozen=True)
class Loader:
    """A program that loads models: what it knows, and how it reads what all read."""
    name: str    # as the command line spells it
    title: str
    choose: Callable[["Model", Findings], Weights]
    takes_safetensors: Callable[[Set[str]], bool]  # or pickles, of the files of a directory
    rope_forms: Tuple[str, ...] = ()  # beside those that all compute

    def knows_type(self, model_type: str, family: Family) -> bool:
        """Whether it has a configuration without code from the directory. TGI's own types are transformers', too."""
        return model_type in family.transformers_types or model_type in known_words(f"{self.name}-types")

    def knows_class(self, name: str, family: Family) -> bool:
        """Whether it has a class of this name, or transformers', which servers fall back to."""
        return name in known_words("transformers-classes") or name in known_words(f"{self.name}-classes") or \
            plain(without_head(name)) in {plain(one) for one in family.transformers_types}


@dataclass(eq=False)
class Model:
    """A directory that rules look at."""
    directory: Directory
    loader: Loader
    family: Family = field(default_factory=Family)
    tp: int = 1
    pp: int = 1
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self) -> None:
        self.config: Dict[str, Any] = object_of(parsed(self.directory.config_text))  # empty without config.json
        classes = list_of(self.config.get("architectures"))
        self.architecture = text_of(classes[0]) if classes else ""  # the first class that config.json names
        self.is_language_model = self.architecture.endswith(("ForCausalLM", "ForConditionalGeneration", "LMHeadModel"))
        self.model_type = text_of(self.config.get("model_type"))
        self.has_own_code = bool(object_of(self.config.get("auto_map")))
        self.for_transformers = self.loader.name == "transformers"
        stated = self.field("quantization_config")
        self.scheme = Scheme(self.field("compression_config") if stated is None else stated)
        self.modules: Dict[str, Module] = {}

    def take(self, weights: Weights) -> None:
        self.weights = Weights(dict(sorted(weights.tensors.items())), weights.metadata, weights.is_whole)
        self.modules = modules_of(self.weights.tensors)

    def field(self, name: str) -> Any:
        """A field of config.json or of its text_config."""
        value = self.config.get(name)
        return object_of(self.config.get("text_config")).get(name) if value is None else value

    def number(self, name: str) -> Optional[int]:
        return whole(self.field(name))

    @property
    def tensors(self) -> Dict[str, Stored]:
        return self.weights.tensors

    @property
    def is_whole(self) -> bool:
        """All weights are read, and there are some."""
        return self.weights.is_whole and bool(self.tensors)

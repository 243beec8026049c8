"""quantization_config as loaders read it, and how quantised weights are named.

Sources: transformers 5.24 quantizers/, compressed-tensors 0.20 quantization/quant_config.py and utils/match.py; torchao 0.18 safetensors_support.py.
"""
import re
import signal
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Set, Tuple

from ..command import UNSUPPORTED, Failed
from ..files import is_whole, list_of, object_of, text_of, whole
from ..text import glob_matches, printable
from .known import known_words
from ..headers import SIZES, Stored

CODES = frozenset(dtype for dtype, size in SIZES.items() if size == 1 and dtype != "BOOL")

# Parts of modules that hold a weight in a known encoding, and what of Module they are.
_PARTS = {"weight": "weight", "weight_scale_inv": "scale", "weight_scale": "scale", "scale": "scale", "weight_packed": "packed", "weight_global_scale": "global_scale"}
# Of GPTQ and AWQ, bitsandbytes, ModelOpt, HQQ, AQLM, EXL2 and 3, EETQ, QuIP, VPTQ, SpQR, Marlin.
_OTHER_PARTS = known_words("parts-of-other-codes")
_TORCHAO = "_weight_"  # "layer._weight_qdata" of "layer.weight"


def is_part_of_codes(name: str) -> bool:
    """Whether the name says that it is a part of a quantised weight, in any encoding: codes, scales, zero points, tables."""
    part = name[name.rfind(".") + 1:]
    return (part in _PARTS and part != "weight") or part in _OTHER_PARTS or part in known_words("parts-beside-codes") or ".weight." in name or \
        part.startswith(_TORCHAO) or part.endswith(("_scale_inv", "_blocks", "_scales", "_scale", "_zero_point", "_packed"))


# Patterns that come from files.

def _stop(*_: Any) -> None:
    raise TimeoutError


class Expressions:
    """Regular expressions that anybody may have written: all of them together have some seconds."""
    seconds_left = 20.0

    @classmethod
    def match(cls, expression: str, name: str) -> bool:
        """From the name's beginning, as re.match. What is no expression matches nothing. Failed where it takes too long."""
        before = signal.signal(signal.SIGALRM, _stop)
        signal.setitimer(signal.ITIMER_REAL, max(cls.seconds_left, 0.001))
        try:
            return re.match(expression, name) is not None
        except (re.error, RecursionError, OverflowError):
            return False
        except TimeoutError:
            raise Failed(UNSUPPORTED, f"the expression {printable(expression)} of quantization_config takes too long to match",
                         "write it without nested repetitions") from None
        finally:
            cls.seconds_left = signal.setitimer(signal.ITIMER_REAL, 0)[0]
            signal.signal(signal.SIGALRM, before)


# The scheme.

@dataclass
class Group:
    """How the weights of some modules are quantised."""
    targets: List[str] = field(default_factory=list)  # names, "re:" and an expression, or classes
    block: Optional[Tuple[int, int]] = None  # fp8: weight_block_size; compressed-tensors: block_structure
    size: Optional[int] = None               # weights that share a scale
    num_bits: int = 8
    strategy: str = ""                       # compressed-tensors: channel, group, block, ...
    is_float: bool = True                    # codes are floats, not integers


class Scheme:
    """`method`: "" without quantization_config, "other" for what is not known here."""

    def __init__(self, config: Any) -> None:
        fields = object_of(config)
        self.stated = text_of(fields.get("quant_method"))
        self.method = "" if not isinstance(config, dict) else self.stated if self.stated in ("fp8", "compressed-tensors", "mxfp4") else "other"
        self.is_known, self.is_compressed = self.method != "other", self.method == "compressed-tensors"
        self.is_mlx = not self.stated and is_whole(fields.get("bits")) and is_whole(fields.get("group_size"))
        self.status = fields.get("quantization_status")
        self.groups: List[Group] = []
        self.has_targets = False
        if isinstance(fields.get("config_groups"), dict):
            self.groups = [_group_in(group) for group in fields["config_groups"].values() if isinstance(object_of(group).get("weights"), dict)]
            self.has_targets = bool(self.groups)
        elif isinstance(config, dict) and self.method != "compressed-tensors":
            self.groups = [Group(block=_block_in(fields.get("weight_block_size")))]
        self.ignored = [text for key in ("ignore", "modules_to_not_convert", "ignored_layers") for text in list_of(fields.get(key)) if isinstance(text, str)]
        self._plain: Set[str] = set(self.ignored)
        self._expressions = [text[3:] for text in self.ignored if text.startswith("re:")]
        self._globs = [text for text in self.ignored if "*" in text and not text.startswith("re:")]
        self._groups: Dict[str, Optional[Group]] = {}

    def ignores_exactly(self, module: str) -> bool:
        """As compressed-tensors itself reads the list: names, and expressions."""
        return module in self._plain or any(Expressions.match(one, module) for one in self._expressions)

    def ignores(self, module: str) -> bool:
        """As servers read the list: also what a name begins or ends in whole components, and names with "*"."""
        dots = [at for at, c in enumerate(module) if c == "."]
        return any(module[:at] in self._plain or module[at + 1:] in self._plain for at in dots) or \
            self.ignores_exactly(module) or any(glob_matches(one, module) for one in self._globs)

    def group_of(self, module: str) -> Optional[Group]:
        """The group whose targets name it best: its own name, else an expression, else the class Linear; None: none, or several equally well."""
        if not self.has_targets:
            return self.groups[0] if self.groups else None
        if module not in self._groups:
            ranks = [max(_rank(target, module) for target in group.targets) for group in self.groups]
            best = max(ranks)
            self._groups[module] = self.groups[ranks.index(best)] if best and ranks.count(best) == 1 else None
        return self._groups[module]

    def is_in_no_group(self, module: str) -> bool:
        return self.has_targets and not any(_rank(target, module) for group in self.groups for target in group.targets)


def _block_in(value: Any) -> Optional[Tuple[int, int]]:
    return (value[0], value[1]) if len(list_of(value)) == 2 and all(is_whole(extent) and extent > 0 for extent in value) else None


def _group_in(group: Dict[str, Any]) -> Group:
    weights, targets = group["weights"], [text for text in list_of(group.get("targets")) if isinstance(text, str)]
    size, num_bits, strategy = whole(weights.get("group_size")), whole(weights.get("num_bits")), text_of(weights.get("strategy"))
    return Group(targets or ["Linear"], _block_in(weights.get("block_structure")), size, 8 if num_bits is None else num_bits,
                 strategy or ("group" if (size or 0) > 0 else "tensor"), weights.get("type") == "float")


def _rank(target: str, module: str) -> int:
    """How well a target names a linear layer: 3 its name, 2 an expression, 1 the class, 0 not."""
    if target == module:
        return 3
    if target.startswith("re:"):
        return 2 if Expressions.match(target[3:], module) else 0
    return 1 if "Linear" in target else 0  # vLLM's layers are linear ones, too; other classes are not


# Modules.

@dataclass
class Module:
    """A linear layer with the parts that are stored of it."""
    name: str  # without the part ("model.layers.0.mlp.up_proj")
    weight: Optional[Stored] = None  # plain, or codes of 8 bits
    scale: Optional[Stored] = None
    scale_name: str = ""             # weight_scale_inv, weight_scale or scale
    packed: Optional[Stored] = None  # weight_packed
    global_scale: Optional[Stored] = None
    other: str = ""                  # a part of an encoding that is not known here ("qweight")

    @property
    def kind(self) -> str:
        return self.name[self.name.rfind(".") + 1:]

    @property
    def has_codes(self) -> bool:
        return self.weight is not None and self.weight.dtype in CODES

    @property
    def is_quantised(self) -> bool:
        return self.packed is not None or self.other != "" or self.has_codes or (self.scale is not None and self.scale_name != "scale")

    def extents(self, scheme: Scheme) -> Optional[Tuple[int, int]]:
        """Rows and columns of the weight that is meant, packed or not."""
        stored = self.packed or self.weight
        if stored is None or len(stored.shape) != 2 or self.other:
            return None
        rows, columns = stored.shape
        if self.packed is None:
            return rows, columns
        group, word = scheme.group_of(self.name), SIZES[stored.dtype] * 8
        bits = group.num_bits if group else 0
        return (rows, columns * (word // bits)) if bits > 0 and word % bits == 0 else None


def modules_of(tensors: Dict[str, Stored]) -> Dict[str, Module]:
    """All modules with a weight of two axes, or what stands for one, by name, in the order of names."""
    modules: Dict[str, Module] = {}
    for name, tensor in tensors.items():
        owner, _, part = name.rpartition(".")
        if ".weight." in name:  # "layer.weight.absmax": what hangs on a tensor is told of its codes
            owner, part = name.split(".weight.", 1)[0], ""
        if not owner and part != "":
            continue
        slot = _PARTS.get(part, "other" if not part or part in _OTHER_PARTS or part.startswith(_TORCHAO) else "")
        if not slot:
            continue
        module = modules.setdefault(owner, Module(owner))
        setattr(module, slot, (part or name[len(owner) + 1:]) if slot == "other" else tensor)
        if slot == "scale":
            module.scale_name = part
    for module in modules.values():  # mlx-lm: words of 32 bits beside their scales
        if module.weight is not None and module.weight.dtype == "U32" and f"{module.name}.scales" in tensors:
            module.other = "scales"
    return {name: module for name, module in sorted(modules.items())
            if module.packed or module.other or (module.weight and len(module.weight.shape) == 2)}

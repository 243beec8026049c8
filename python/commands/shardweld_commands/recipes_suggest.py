"""`shardweld recipes suggest`: the text of a recipe to begin with, for a finished model that no family makes as it is."""
import itertools
import math
import re
from typing import Any, Counter, Dict, List, Optional, Sequence, Set, Tuple

from .command import UNSUPPORTED, Command, Failed, Given, ask, show
from .recipes_check import Shape, Shapes, evaluated, finished_model, made_by, numbered, shapes_of
from .text import printable, shape_text

# A dim by its extent: the first of these that fits.
_KNOWN_DIMS = (("h",), ("n", "d"), ("g", "d"), ("t", "f"), ("te", "fe"), ("d",), ("n",), ("e",), ("vocab",))


class Group:
    """Tensors whose names differ in numbers only."""

    def __init__(self, n_numbers: int) -> None:
        self.ends = [0] * n_numbers  # of each number, largest + 1
        self.shapes: Counter[Shape] = Counter()

    def usual(self) -> Tuple[Shape, int]:
        """The shape that most of them have, and how many do."""
        return min(self.shapes.items(), key=lambda one: (-one[1], one[0]))


def grouped(shapes: Shapes) -> Dict[Tuple[str, ...], Group]:
    groups: Dict[Tuple[str, ...], Group] = {}
    for name, shape in shapes.items():
        texts, numbers = numbered(name)
        group = groups.setdefault(texts, Group(len(numbers)))
        group.ends = [max(end, number + 1) for end, number in zip(group.ends, numbers)]
        group.shapes[shape] += 1
    return {texts: groups[texts] for texts in sorted(groups)}


def symbol_name(text: str) -> str:
    """Text as a name in a recipe."""
    text = re.sub("[^A-Za-z0-9]", "_", text)
    return text if text and not text[0].isdigit() else "my_" + text


def last_part(logical: str) -> str:
    """"q_norm" of "layer.{l}.q_norm"."""
    return logical.rpartition(".")[2]


class Suggestion:
    """A recipe that extends the nearest family: `nearest` is that one, evaluated; `store` the lines of the framework whose names the checkpoint has."""

    def __init__(self, nearest: Any, model: Shapes, stored: Optional[Shapes], store: Optional[List[Any]]) -> None:
        self.name, self.sizes, self.stored, self.store = nearest["recipe"], nearest["sizes"], stored, store
        self.indices_known = set(nearest["indices"])
        hub = [line for line in nearest["lines"] if line["part"] == "hub"]
        self.module = [line for line in nearest["lines"] if line["part"] == "module"]
        self.logicals = {last_part(line["logical"]) for line in hub + self.module}
        layer = next((line["name"] for line in hub if "{l}." in line["name"] and line["logical"].startswith("layer.{l}.")), "model.layers.{l}.")
        self.prefix = layer[:layer.index("{l}.") + 4]
        self.lets: Dict[str, int] = {}
        self.indices: Dict[str, int] = {}
        self.block: List[str] = []
        self.passes: Set[str] = set()
        self.notes: List[str] = []
        self.has_new = False
        made = made_by(nearest)
        n_there = Counter(tensor["line"] for tensor in made if tensor["name"] in model)
        for line in sorted({tensor["line"] for tensor in made}):
            told = nearest["lines"][line]
            if n_there[line] == 0 and not told["optional"]:
                if told["name"].startswith(self.prefix):
                    self.block.append("without " + told["name"][len(self.prefix):])
                else:
                    self.notes.append("the model has no " + told["name"])
        names = {tensor["name"] for tensor in made}
        layers = self.prefix[:self.prefix.index("{")]
        for texts, group in grouped({name: shape for name, shape in model.items() if name not in names}).items():
            is_in_layer = len(texts) > 1 and texts[0] == layers
            if not all(re.fullmatch("[A-Za-z0-9._-]*", text) for text in texts):
                self.notes.append("no recipe can hold the name " + printable("*".join(texts)))
            elif is_in_layer and group.usual()[0]:
                self._add_line(texts, group)
            else:
                dot = texts[0].find(".", 6 if texts[0].startswith("model.") else 0)
                self.passes.add("*".join(texts) if is_in_layer else texts[0][:dot + 1] + "*" if dot >= 0 else texts[0] + "*")
        for tensor in made:
            shape = model.get(tensor["name"])
            if shape is not None and shape != tuple(tensor["shape"]):
                self.notes.append(f"{tensor['name']} is {shape_text(shape)}, the recipe makes {shape_text(tensor['shape'])} "
                                  f"({nearest['lines'][tensor['line']]['layout']})")
        # Names of a module tree that the model does not have: `module` lines may be missing.
        only = {name: shape for name, shape in (stored or {}).items() if name not in model and store is None}
        for texts, group in grouped(only).items():
            self.notes.append(f"only the checkpoint has {printable('*'.join(texts))} {shape_text(group.usual()[0])}")

    def text(self, model_type: str) -> str:
        name, shown = symbol_name(model_type), printable(model_type).replace('"', "_")
        lines = [f"recipe {'my_' + name if name == self.name else name}", f"extends {self.name}"]
        lines += ["uses   none   # module trees only; for Megatron give its checkpoint as --local_dir"] if self.has_new else []
        lines += [f'match  @model_type = "{shown}"']
        lines += [f"let    {axis} = {self.lets[axis]}   # check" for axis in sorted(self.lets)]
        lines += [f"index  {capture} = {self.indices[capture]}   # check" for capture in sorted(self.indices)]
        lines += (["block  layer"] if self.block else []) + ["  " + line for line in self.block]
        return "\n".join(lines + [f"pass   {glob}" for glob in sorted(self.passes)] + [f"# {note}" for note in self.notes]) + "\n"

    def _add_line(self, texts: Sequence[str], group: Group) -> None:
        shape, count = group.usual()
        axes = {"l"}
        name = own = texts[1][1:]  # without the dot
        for text, end in zip(texts[2:], group.ends[1:]):
            capture = "e"  # the family's experts, else one of its own
            if capture not in self.indices_known or self.sizes.get(capture) != end or capture in axes:
                capture = self._fresh("i", end, axes)
                self.indices[capture] = end
            axes.add(capture)
            name += "{" + capture + "}" + text
            own += text
        tail = f"   # {count} of {shape_text(shape)}: check"
        line = next((line for line in self.module if line["name"] == self.prefix + name), None)
        if line is None and self.store is not None:
            line = self._unused_line(shape)
        if line is not None:
            self.block.append(f"{name} = {last_part(line['logical'])}  {line['layout']}{tail}")
        elif self.store is not None:
            self.block.append(f"# {name}: no stored tensor clearly belongs to it{tail}")
        else:
            logical = symbol_name(own.replace(".weight", ""))
            logical = "own_" + logical if logical in self.logicals else logical
            optional = "  optional" if count < self.sizes.get("l", 0) else ""
            self.block.append(f"{name} = {logical}{self._layout_text(shape, axes)}{optional}{tail}")
            self.has_new = True
        self.notes += [f"{name} is {shape_text(other)} in {n}: it needs a `let`" for other, n in sorted(group.shapes.items()) if other != shape]

    def _unused_line(self, shape: Shape) -> Optional[Any]:
        """A framework's line for stored tensors of this shape that the family has no line for; None where two could be meant."""
        fits = []
        for line in self.store or []:
            pattern = re.sub(r"\\{[^}]*\\}", "(?:0|[1-9][0-9]*)", re.escape(line["name"]))
            if last_part(line["logical"]) not in self.logicals and line["dims"] == len(shape) and any(
                    one == shape and re.fullmatch(pattern, name) for name, one in (self.stored or {}).items()):
                fits.append(line)
        return fits[-1] if len({line["logical"] for line in fits}) == 1 else None

    def _layout_text(self, shape: Shape, axes: Set[str]) -> str:
        text = ""
        for extent in shape:
            dim = next((dim for dim in _KNOWN_DIMS if not axes & set(dim) and math.prod(self.sizes.get(axis, 0) for axis in dim) == extent), None)
            if dim is None:
                dim = (self._fresh("x", extent, axes),)
                self.lets[dim[0]] = extent
            axes.update(dim)
            text += f"  {dim[0]}" if len(dim) == 1 else f"  ({' '.join(dim)})"
        return text

    @staticmethod
    def _fresh(letter: str, extent: int, axes: Set[str]) -> str:
        """"x72", or "x72_2" where a line has that one."""
        names = (f"{letter}{extent}" + (f"_{at}" if at > 1 else "") for at in itertools.count(1))
        return next(name for name in names if name not in axes)


def _n_equal(family: Any, model: Shapes) -> int:
    return sum(model.get(name) == tuple(shape) for name, shape in family["tensors"].items())


def run_suggest(given: Given) -> int:
    directory, model = finished_model(given)
    more = ["--recipe", given.get("recipe")] if "recipe" in given else []
    stored, store = None, None
    if "local_dir" in given:
        inspected = ask(["inspect", given.get("local_dir")])
        stored, dialect = shapes_of(inspected), ask(["recipes", inspected["dialect"], *more])
        store = None if dialect["has_own_names"] else dialect["store"]
    told = ask(["recipes", "all", "--config", directory, *more])
    family = max((one for one in told["families"] if _n_equal(one, model)), default=None,
                 key=lambda one: (2 * _n_equal(one, model) - len(one["tensors"]), -one["depth"]))  # the nearest
    n_equal = _n_equal(family, model) if family else 0
    if family is None or 4 * n_equal < len(model):
        found = f"{family['recipe']} makes {n_equal} of {len(model)} tensors" if family else "none makes any of its tensors"
        raise Failed(UNSUPPORTED, f"no family is near to {printable(directory)}: {found}", "begin with `shardweld recipes llama` and docs/using/recipes.md")
    nearest = evaluated([family["recipe"], "--config", directory, *more])
    text = Suggestion(nearest, model, stored, store).text(told["model_type"] or "my_family")
    show(given, f"# {n_equal} of {len(model)} tensors are as {family['recipe']} makes them.\n{text}")
    return 0


COMMAND = Command("recipes-suggest", run_suggest)

"""`shardweld recipes check`: what a recipe makes otherwise than a finished model has it."""
import re
import sys
from typing import Any, Dict, List, Tuple

from .command import DIFFERS, MISMATCH, UNSUPPORTED, Command, Failed, Given, ask, on_terminal, show
from .text import glob_matches, printable, shape_text

Shape = Tuple[int, ...]
Shapes = Dict[str, Shape]


def finished_model(given: Given) -> Tuple[str, Shapes]:
    """The directory of --ref, and what the model in it has."""
    return given.get("ref"), shapes_of(ask(["inspect", given.get("ref"), "--backend", "hf"]))


def shapes_of(inspected: Any) -> Shapes:
    return {row["name"]: tuple(row["shape"]) for row in inspected["tensors"]}


def numbered(name: str) -> Tuple[Tuple[str, ...], Tuple[int, ...]]:
    """A name in texts between the numbers in it: "experts.7.w1" as ("experts.", ".w1") and 7."""
    parts = re.split(r"(?<![^.])([0-9]{1,18})(?![^.])", name)
    return tuple(parts[::2]), tuple(map(int, parts[1::2]))


def evaluated(words: List[str]) -> Any:
    """A recipe with the values of a config.json. Failed where they make no model of it."""
    recipe = ask(["recipes", *words])
    if recipe["fault"]:
        raise Failed(MISMATCH if recipe["recipe"] else UNSUPPORTED, recipe["fault"])
    return recipe


def made_by(recipe: Any) -> List[Any]:
    """The tensors of an evaluated recipe, in the order of its lines."""
    return sorted(recipe["tensors"], key=lambda tensor: (tensor["line"], numbered(tensor["name"])[1]))


def run_check(given: Given) -> int:
    directory, model = finished_model(given)
    recipe = evaluated(["--config", directory, *(["--recipe", given.get("recipe")] if "recipe" in given else [])])
    faults, left = [], dict(model)
    for tensor in made_by(recipe):
        name, shape = tensor["name"], left.pop(tensor["name"], None)
        expected = f"{shape_text(tensor['shape'])}  ({recipe['lines'][tensor['line']]['origin']})"
        if shape is None and not tensor["optional"]:
            faults.append(f"extra: {name} {expected}")
        elif shape is not None and shape != tuple(tensor["shape"]):
            faults.append(f"shape: {name} is {shape_text(shape)}, not {expected}")
    faults += [f"missing: {printable(name)} {shape_text(left[name])}" for name in sorted(left) if not any(glob_matches(glob, name) for glob in recipe["passes"])]
    if not faults:
        show(given, on_terminal(f"the recipe {recipe['recipe']} makes the names and shapes of all {len(model)} tensors\n", sys.stdout))
        return 0
    show(given, "\n".join(faults) + "\n", ok=False)
    raise Failed(DIFFERS, f"the recipe {recipe['recipe']} and the model differ in {len(faults)} tensors")


COMMAND = Command("recipes-check", run_check)

"""What a change is."""
import os
from dataclasses import dataclass
from typing import Callable

from fixture import replace


@dataclass(frozen=True)
class Change:
    kind: str               # the class it is counted under
    what: str               # which one: unique within a fixture and kind
    make: Callable          # changes a staged copy: takes its directory
    touches: tuple = ()     # files it concerns, relative
    meanwhile: str = ""     # faults to inject while the merge runs, instead of a change before it
    is_given: bool = True   # whether what stands in the files it concerns may be handed on with the model


def put(root, name, data):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    replace(path, data)


def exchange(root, one, other):
    """Two files or directories change names."""
    one, other = os.path.join(root, one), os.path.join(root, other)
    os.rename(one, one + ".exchanged")
    os.rename(other, one)
    os.rename(one + ".exchanged", other)


def copy(root, name, new_name):
    """The file under another name too, in place of what is there."""
    path = os.path.join(root, new_name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.remove(path)
    os.link(os.path.join(root, name), path)

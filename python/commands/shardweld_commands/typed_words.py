"""What people type who come from other tools, and what it is called here: rows of typed_words.txt, which the program reads, too."""
import os
from typing import Iterable, Optional, Tuple


def _option_row(commands: Iterable[str], typed: str) -> Optional[Tuple[str, str]]:
    """What is meant and what to know of it, for the first of the commands that has a row."""
    with open(os.path.join(os.path.dirname(__file__), "typed_words.txt"), encoding="utf-8") as file:
        part = file.read().split("\n[options]\n")[1].split("\n[values]\n")[0]
    rows = [(line + "|||").split("|") for line in part.splitlines() if line and not line.startswith("#")]
    for command in commands:
        for at, words, means, text, *_ in rows:
            at_every = "every" in at.split() and "-" + command not in at.split()
            if typed in words.split() and command and (at_every or command in at.split()):
                return means.strip(), text.strip()
    return None


def taken_for(commands: Iterable[str], typed: str) -> str:
    """The option that an option of another tool is here; "" where it is none."""
    row = _option_row(commands, typed)
    return row[0][3:] if row and row[0].startswith("=--") else ""


def option_guess(commands: Iterable[str], typed: str) -> str:
    """"did you mean --lora fold?", and what to know; "" where nothing is known."""
    means, text = _option_row(commands, typed) or ("", "")
    return " ".join(part for part in (f"did you mean {means.lstrip('=')}?" if means else "", text) if part)

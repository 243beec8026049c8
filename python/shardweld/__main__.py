"""`python -m shardweld merge ...` is the program."""

import os
import shutil
import sys
from pathlib import Path
from typing import Iterator, Optional


def places() -> Iterator[Path]:
    """Where pip puts the program: beside the interpreter, or below the prefix or the --target DIR in which this package lies."""
    package = Path(__file__).resolve().parent
    yield Path(sys.executable).parent
    yield package.parents[3] / "bin"  # PREFIX/lib/python3.N/site-packages/shardweld
    yield package.parent / "bin"


def find_program() -> Optional[str]:
    return shutil.which("shardweld", path=os.pathsep.join(map(str, places()))) or shutil.which("shardweld")


def program() -> str:
    found = find_program()
    if found is None:
        sys.exit("shardweld: the program lies neither beside this Python nor on PATH; the wheel brings it (docs/using/install.md)")
    return found


if __name__ == "__main__":
    os.execv(program(), ["shardweld", *sys.argv[1:]])

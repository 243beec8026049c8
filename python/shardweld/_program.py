"""Where the program is."""

import os
import shutil
import sys
from pathlib import Path
from typing import Iterator, Optional


def _places() -> Iterator[Path]:
    """Where pip puts the program: beside the interpreter, or below the prefix or the --target DIR in which this package lies."""
    package = Path(__file__).resolve().parent
    yield Path(sys.executable).parent
    yield package.parents[3] / "bin"  # PREFIX/lib/python3.N/site-packages/shardweld
    yield package.parent / "bin"


def find_program() -> Optional[str]:
    return shutil.which("shardweld", path=os.pathsep.join(map(str, _places()))) or shutil.which("shardweld")

"""`python -m shardweld merge ...` is the program."""

import os
import shutil
import sys
from pathlib import Path


def program() -> str:
    """The program beside the interpreter, where pip puts it, or else the first one on PATH."""
    beside = Path(sys.executable).parent / "shardweld"
    found = str(beside) if beside.exists() else shutil.which("shardweld")
    if found is None:
        sys.exit("shardweld: the program is not installed beside this Python, nor is it on PATH")
    return found


if __name__ == "__main__":
    os.execv(program(), ["shardweld", *sys.argv[1:]])

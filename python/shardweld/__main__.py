"""`python -m shardweld merge ...` is the program."""

import os
import sys

from ._program import find_program

if __name__ == "__main__":
    found = find_program()
    if found is None:
        sys.exit("shardweld: the program lies neither beside this Python nor on PATH; the wheel brings it (docs/using/install.md)")
    os.execv(found, ["shardweld", *sys.argv[1:]])

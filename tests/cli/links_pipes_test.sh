#!/usr/bin/env bash
# A FIFO in the place of each file that is read or written: no command waits for it.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python3 -B "$(dirname "${BASH_SOURCE[0]}")/links_pipes.py" "$SHARDWELD" "$TESTS/data" "$WORK" || fail "as printed above"
finish

"""What another program says, line by line."""
import os
import re
import select
import subprocess
import time
from typing import Callable, Iterator


def lines_of(process: "subprocess.Popen[bytes]", between: Callable[[], None], end: bytes = b"\n") -> Iterator[bytes]:
    """All that a process writes until it has ended: what it leaves behind may keep its output open. `between` is called every 0.2 seconds, and more often;
    `end`: a pattern of what ends lines."""
    assert process.stdout
    pipe, rest, is_open = process.stdout.fileno(), b"", True
    while True:
        has_ended = process.poll() is not None
        is_ready = is_open and bool(select.select([pipe], [], [], 0 if has_ended else 0.2)[0])
        some = os.read(pipe, 1 << 16) if is_ready else b""
        is_open = is_open and (bool(some) or not is_ready)
        *lines, rest = re.split(end, rest[:1 << 16] + some)
        yield from lines
        if has_ended and not some:
            break
        if not is_open:
            time.sleep(0.05)  # it has closed its output, and goes on
        between()
    process.stdout.close()
    if rest:
        yield rest

"""What ends a command before its work is done, and other programs that it runs meanwhile."""
import ctypes
import math
import os
import re
import select
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from .command import LAUNCH, STOPPED, Failed

_LIBC, _PR_SET_PDEATHSIG = ctypes.CDLL(None), 1


class Stop:
    """Signals, and the end of the job's time (`deadline`, seconds since 1970), which end a command in order. What runs meanwhile is told, and waited for;
    whoever insists is obeyed."""

    def __init__(self) -> None:
        self.deadline: Optional[float] = None
        self._signal, self._n_told = "", 0
        self._child: Optional["subprocess.Popen[bytes]"] = None
        self._stop_with = signal.SIGTERM
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, self._note)

    def _note(self, number: int, _: Any) -> None:
        self._signal = self._signal or signal.Signals(number).name
        self._n_told += number in (signal.SIGINT, signal.SIGTERM) or not self._n_told
        self._tell(self._stop_with if self._n_told == 1 else signal.SIGTERM if self._n_told == 2 else signal.SIGKILL)

    def _tell(self, number: int) -> None:
        if self._child:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)

    def why(self) -> str:
        if self._signal:
            return ("interrupted by " if self._signal in ("SIGINT", "SIGTERM") else "stopped by ") + self._signal
        return "stopped before the job ends, or at the time that was given" if self.deadline and time.time() >= self.deadline else ""

    def check(self, where: str) -> None:
        """Failed(STOPPED) where there is a reason."""
        if self.why():
            raise Failed(STOPPED, f"{self.why()}, {where}", "the same command goes on")

    def run(self, words: Sequence[str], on_line: Callable[[str], None], stop_with: int, dies_with: int, environment: Dict[str, str], grace_s: float = 10.0,
            limit_s: float = math.inf, end: bytes = b"\n") -> int:
        """Runs a command to its end, each line of its output given to `on_line` (`end`: a pattern of what ends lines): how it ended, as subprocess says. It
        gets `stop_with` when this process is to stop, SIGTERM when it takes longer than `limit_s`, and is killed if it has `grace_s` behind SIGTERM; it gets
        `dies_with` if this process is killed. Failed(LAUNCH) where it cannot be started."""
        parent = os.getpid()

        def follow() -> None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, dies_with)
            if os.getppid() != parent:
                os._exit(1)

        try:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                                     start_new_session=True, preexec_fn=follow)
        except OSError as error:
            raise Failed(LAUNCH, f"cannot run {words[0]}: {error.strerror}", "give its path") from None
        self._child, self._stop_with, begun = child, signal.Signals(stop_with), time.monotonic()
        if self._signal:
            self._tell(stop_with)
        told_at = math.inf
        for lines in _lines_of(child, end):
            for line in lines:
                on_line(line.decode(errors="replace"))
            now = time.monotonic()
            is_late = now > begun + limit_s
            if is_late and told_at == math.inf:
                self._tell(signal.SIGTERM)
            if is_late or (self._signal and stop_with == signal.SIGTERM):
                told_at = min(told_at, now)
            if now - told_at > grace_s:
                self._tell(signal.SIGKILL)
        self._child = None
        return child.wait()


def _lines_of(process: "subprocess.Popen[bytes]", end: bytes) -> Iterator[List[bytes]]:
    """What a process writes until it has ended, as it comes, and nothing every 0.2 seconds: what it leaves behind may keep its output open."""
    assert process.stdout
    pipe, rest, is_open = process.stdout.fileno(), b"", True
    while True:
        has_ended = process.poll() is not None
        is_ready = is_open and bool(select.select([pipe], [], [], 0 if has_ended else 0.2)[0])
        some = os.read(pipe, 1 << 16) if is_ready else b""
        is_open = is_open and (bool(some) or not is_ready)
        *lines, rest = re.split(end, rest[:1 << 16] + some)
        yield lines
        if has_ended and not some:
            break
        if not is_open:
            time.sleep(0.05)  # it has closed its output, and goes on
    process.stdout.close()
    yield [rest] if rest else []

"""How a watch speaks, is told to stop, and runs other programs."""
import ctypes
import json
import os
import signal
import subprocess
import time
from datetime import datetime
from typing import Any, Callable, Dict, List, Optional

from .. import command
from ..command import STOPPED, Failed

_LIBC, _PR_SET_PDEATHSIG = ctypes.CDLL(None), 1
_USUAL_LEAD_S = 60.0
_GRACE_S = 10.0   # for a command that is told to stop
_LINE_S = 10.0    # between two lines of progress


class Voice:
    """Messages on standard error: lines for people, with --progress json an object each."""

    def __init__(self, style: str, is_quiet: bool, is_verbose: bool) -> None:
        self._is_json, self._shows_progress = style == "json", style != "none" and not is_quiet
        self._is_quiet, self._is_verbose = is_quiet, is_verbose
        self._phase, self._told = "", 0.0

    def message(self, level: str, text: str) -> None:
        if self._is_quiet or (level == "debug" and not self._is_verbose):
            return
        if self._is_json:
            self.say(json.dumps({"event": "message", "level": level, "text": text}))
        else:
            self.say(("warning: " if level == "warning" else "") + text)

    @staticmethod
    def say(text: str) -> None:
        """A line, which nobody need read any more."""
        try:
            command.say(text)
        except OSError:
            pass

    def info(self, text: str) -> None:
        self.message("info", text)

    def warning(self, text: str) -> None:
        self.message("warning", text)

    def error(self, failed: Failed) -> None:
        if self._is_json:
            self.say(json.dumps({"event": "error", "code": failed.code, "what": failed.what, "where": failed.where, "hint": failed.hint}))
        else:
            command.complain(failed)

    def line(self, text: str) -> None:
        """An object for programs, which people are not told."""
        if self._is_json and not self._is_quiet:
            self.say(text)

    def progress(self, row: Dict[str, Any]) -> None:
        """What a merge tells of its progress, a line at each phase that has a measure, and every ten seconds."""
        if not self._shows_progress or self._is_json or not row.get("total"):
            return
        now = time.monotonic()
        if row["phase"] != self._phase or now - self._told >= _LINE_S:
            self._phase, self._told = row["phase"], now
            self.say(f"{row['phase']}: {100 * row['done'] // row['total']} %")


class Stop:
    """Signals, and the end of the job's time (`deadline`, seconds since 1970), which end a watch in order. What runs meanwhile is told, and waited for;
    whoever insists is obeyed."""

    def __init__(self) -> None:
        self.deadline: Optional[float] = None
        self._signal, self._n_told = "", 0
        self._child: Optional["subprocess.Popen[bytes]"] = None
        self._stop_with = signal.SIGTERM
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, self._note)

    def _note(self, number: int, _: Any) -> None:
        self._signal = self._signal or signal.Signals(number).name
        self._n_told += number in (signal.SIGINT, signal.SIGTERM) or not self._n_told
        self._tell(self._stop_with if self._n_told == 1 else signal.SIGTERM if self._n_told == 2 else signal.SIGKILL)

    def _tell(self, number: int) -> None:
        if self._child:
            try:
                os.killpg(self._child.pid, number)
            except ProcessLookupError:
                pass

    def why(self) -> str:
        if self._signal:
            return ("interrupted by " if self._signal in ("SIGINT", "SIGTERM") else "stopped by ") + self._signal
        return "stopped before the job ends, or at the time that was given" if self.deadline and time.time() >= self.deadline else ""

    def check(self, where: str) -> None:
        """Failed(STOPPED) where there is a reason."""
        if self.why():
            raise Failed(STOPPED, f"{self.why()}, {where}", "the same command goes on")

    def run(self, words: List[str], on_line: Callable[[str], None], stop_with: int, dies_with: int, environment: Dict[str, str]) -> int:
        """Runs a command to its end, each line of its output given to `on_line`: how it ended, as subprocess says. It gets `stop_with` when this watch is
        to stop, and `dies_with` if the watch is killed. Failed(LAUNCH) where it cannot be started."""
        parent = os.getpid()

        def follow() -> None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, dies_with)
            if os.getppid() != parent:
                os._exit(1)

        try:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                                     start_new_session=True, preexec_fn=follow)
        except OSError as error:
            raise Failed(command.LAUNCH, f"cannot run {words[0]}: {error.strerror}", "give its path") from None
        self._child, self._stop_with = child, signal.Signals(stop_with)
        if self._signal:
            self._tell(stop_with)
        told: List[float] = []

        def insist() -> None:
            if self._signal and stop_with == signal.SIGTERM:
                told.append(time.monotonic())
                if told[-1] - told[0] > _GRACE_S:
                    self._tell(signal.SIGKILL)

        for line in command.lines_of(child, insist):
            on_line(line.decode(errors="replace"))
        self._child = None
        return child.wait()


def deadline(before_s: Optional[float], at: Optional[float]) -> Optional[float]:
    """When to stop: so long before the end of Slurm's job (a minute, less where less than ten are left), or at that time, if that is earlier."""
    told, job = os.environ.get("SLURM_JOB_END_TIME", ""), os.environ.get("SLURM_JOB_ID", "")
    if not told.isdigit() and not job:
        return at
    try:  # Slurm 22.05 has no such variable
        squeue = ["squeue", "-h", "-j", job, "-o", "%e"]
        answer = "" if told.isdigit() else subprocess.run(squeue, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20, text=True, check=False).stdout
        end = float(told) if told.isdigit() else datetime.fromisoformat(answer.strip()).timestamp()
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return at
    end -= min(max((end - time.time()) / 10, 0), _USUAL_LEAD_S) if before_s is None else before_s
    return min(end, at or end)

"""How a watch speaks, and when it ends."""
import json
import os
import subprocess
import time
from contextlib import suppress
from datetime import datetime
from typing import Any, Dict, Optional

from ..command import Failed, complain, say

_USUAL_LEAD_S = 60.0
_LINE_S = 10.0  # between two lines of progress


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
        with suppress(OSError):
            say(text)

    def info(self, text: str) -> None:
        self.message("info", text)

    def warning(self, text: str) -> None:
        self.message("warning", text)

    def error(self, failed: Failed) -> None:
        if self._is_json:
            self.say(json.dumps({"event": "error", "code": failed.code, "what": failed.what, "where": failed.where, "hint": failed.hint}))
        else:
            complain(failed)

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

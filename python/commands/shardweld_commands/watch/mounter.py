"""What a watch with --mount does: the newest complete step is mounted at OUT/.STEP, and the link OUT/latest leads to it. What is mounted the kernel knows:
a watch that was killed leaves its mounts to those who read them, and the next one goes on with them."""
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from typing import List, Optional, Tuple

from .. import command
from ..command import LOCKED, TARGET, USAGE, Failed
from .steps import Files, Look, Ready, files_of
from .steward import Steward

_LATEST, _READY = "latest", ".ready"
_USUAL_KEEP = 2   # who resolves the link and opens file after file has the model before the last one meanwhile
_END_S = 10.0     # that a mount has to end


def _mounts_in(directory: str) -> List[str]:
    """The points of models that are mounted right there."""
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
        rows = [line.split(" ") for line in file]
    points = [re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), row[1]) for row in rows if row[2] == "fuse.shardweld"]
    return [point for point in points if os.path.dirname(point) == directory]


def _answers(point: str) -> bool:
    try:
        return point in _mounts_in(os.path.dirname(point)) and bool(os.listdir(point))
    except OSError:
        return False


class Mounter(Steward):
    _report = ".shardweld/report.json"
    _mounted = ""  # the step

    def watch(self) -> None:
        try:
            super().watch()
        finally:
            for point in self._points():
                self._take_away(point, is_forced=True)
            if os.path.islink(self._latest()) and not os.path.exists(self._latest()):
                os.unlink(self._latest())

    def _points(self) -> List[str]:
        """The places of mounts, the newest last, and of those that were killed and left something."""
        left = {os.path.join(self._out, name[:-len(_READY)]) for name in os.listdir(self._out) if name.endswith(_READY)}
        return sorted(left.union(_mounts_in(self._out)), key=lambda point: self._numbers.get(os.path.basename(point)[1:], 0))

    def _latest(self) -> str:
        return os.path.join(self._out, _LATEST)

    def _outputs(self, name: str) -> List[str]:
        return [os.path.join(self._out, "." + name)]

    def _keep_books(self, look: Look) -> None:
        super()._keep_books(look)
        self._remove_older()
        if self._mounted and not _answers(self._outputs(self._mounted)[0]):
            self._voice.warning(f"the mount of {self._mounted} was killed or taken away")
            self._lookout.forget(self._mounted)
            self._mounted = ""

    def _take(self, ready: Ready) -> None:
        self._owed.pop(ready.step.name, None)  # a mount that is there owes nothing
        super()._take(ready)

    def _make(self, ready: Ready) -> Tuple[Optional[Failed], Optional[int]]:
        """Mounts a step, and has the link lead to it. Those with lower numbers are passed by from then on."""
        step, point = ready.step, self._outputs(ready.step.name)[0]
        if os.path.lexists(self._latest()) and not os.path.islink(self._latest()):
            raise Failed(TARGET, f"{self._latest()} is no link", "remove it, or name another OUT")
        is_there = self._is_sound(point, files_of(step.path)) and not ready.was_made
        if not is_there:
            if point in _mounts_in(self._out):  # of files that were others
                self._take_away(point, is_forced=True)
            os.makedirs(point, exist_ok=True)
            words = ["mount", step.path, point, *self._asked.merge, *self._role(step), "--daemon", f"--ready={point}{_READY}"]
            failed = self._run_program(words, signal.SIGTERM)
            if failed:
                os.rmdir(point)
                if failed.code == USAGE:
                    raise failed
                return failed, None
        fresh = self._latest() + ".new"
        if os.path.lexists(fresh):
            os.unlink(fresh)
        os.symlink(os.path.basename(point), fresh)
        os.rename(fresh, self._latest())
        self._lookout.first, self._mounted = step.number, step.name
        self._unmade = {name: why for name, why in self._unmade.items() if self._numbers.get(name, 0) > step.number}
        if is_there:
            return None, None
        self._voice.info(f"mounted {step.name}: {self._latest()}")
        return None, 0

    def _is_sound(self, point: str, files: Files) -> bool:
        """Whether there is a mount that answers, of the files as they are."""
        try:
            return _answers(point) and os.stat(point + _READY).st_mtime_ns > max(time for _, time in files.values())
        except (OSError, ValueError):
            return False

    def _remove_older(self) -> None:
        """Mounts beyond the newest of --keep that nobody uses."""
        for point in self._points()[:-(self._asked.keep or _USUAL_KEEP)]:
            if os.path.realpath(self._latest()) != point:
                self._take_away(point, is_forced=False)

    def _take_away(self, point: str, is_forced: bool) -> None:
        def is_mounted() -> bool:
            return point in _mounts_in(self._out)

        done = command.run(["unmount", point], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if done.returncode == LOCKED and is_forced:
            with suppress(OSError, ValueError), open(point + _READY, encoding="utf-8") as file:
                os.kill(int(file.read()), signal.SIGTERM)
        deadline = time.monotonic() + _END_S
        while is_forced and is_mounted() and time.monotonic() < deadline:
            time.sleep(0.05)
        if not is_mounted():
            if os.path.lexists(point + _READY):
                os.unlink(point + _READY)
            os.rmdir(point)
            self._diary.write("unmounted", step=os.path.basename(point)[1:])
        elif done.returncode != LOCKED or is_forced:
            self._voice.warning(f"{point} stays mounted: {done.stderr.strip()}")

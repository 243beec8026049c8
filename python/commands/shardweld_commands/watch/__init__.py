"""shardweld watch: merges each step of a training run as soon as it is complete, in a loop over `shardweld merge`."""
import os
import shutil
import signal
import subprocess

from ..command import TARGET, Command, Failed, Given
from ..stop import Stop
from .mounter import Mounter
from .request import Request, refuse_ranks
from .steward import Steward
from .voice import Voice, deadline


def _watch(given: Given) -> int:
    refuse_ranks()
    voice = Voice(given.get("progress", "auto"), "quiet" in given, "verbose" in given)
    try:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        stop = Stop()
        asked = Request(given, stop)
        stop.deadline = deadline(given.seconds("stop_before"), given.seconds("stop_at"))
        if asked.is_polite:  # processor and disk are the trainer's first; what is run inherits it
            os.nice(19)
            if shutil.which("ionice"):
                subprocess.run(["ionice", "-t", "-c", "3", "-p", str(os.getpid())], stderr=subprocess.DEVNULL, check=False)
        if os.path.lexists(asked.outs[0]) and not os.path.isdir(asked.outs[0]):
            raise Failed(TARGET, f"{asked.outs[0]} is not a directory", "name a directory for the outputs")
        os.makedirs(asked.outs[0], exist_ok=True)
        (Mounter if asked.is_mounted else Steward)(asked, voice, stop).watch()
    except Failed as failed:
        voice.error(failed)
        return failed.code
    return 0


COMMAND = Command("watch", _watch)

"""What a watch costs the job that writes beside it: the job saves a checkpoint, each file synced, alone and while `shardweld watch` merges an earlier
step of it. Knows the watch's command line and what it leaves while it works."""
import glob
import os
import shutil
import signal
import subprocess
import sys
import time

import merging
import page_cache
import pairs
import process
from place import Model

SAVED_GB = 1  # by the job; what is merged beside it, `gb`, is larger, so that the merge outlasts the save
# None; as people are told to run it; as it comes; and as greedy as a merge. (--interval: a step counts as complete after two.)
WATCHES = {"alone": None, "limited": ["--bw_limit", "200MB"], "polite": [], "greedy": ["--polite", "no"]}
WAIT_S = 60


def key(gb):
    return {"kind": "watch", "input": "legacy", "dtype": "bf16", "ranks": 1, "strategy": "auto", "cache": "warm", "fsync": "yes", "gb": gb}


def save(source, target):
    """The job: writes the files of a checkpoint as trainers do, and has each on the disk before the next."""
    for path in page_cache.files_below(source):
        copy = os.path.join(target, os.path.relpath(path, source))
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        with open(path, "rb") as read, open(copy, "wb") as written:
            shutil.copyfileobj(read, written, 16 << 20)
            written.flush()
            os.fsync(written.fileno())


class Beside:
    """A watch at work while the `with` lasts: Failed if it made nothing yet, or was done before the end."""

    def __init__(self, command, out, log):
        self.command, self.out, self.log = command, out, log

    def __enter__(self):
        os.makedirs(self.out, exist_ok=True)
        with open(self.log, "wb") as log:
            self.child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + WAIT_S
        while not glob.glob(f"{self.out}/.*partial/*.safetensors"):
            if time.monotonic() > deadline or self.child.poll() is not None:
                self._end()
                raise process.Failed(f"the watch began nothing\n{process.tail(self.log)}")
            time.sleep(0.02)

    def __exit__(self, kind, *_):
        is_done = bool(glob.glob(f"{self.out}/*/config.json"))
        self._end()
        if kind is None and is_done:
            raise process.Failed("the watch was done before the job: measure a larger --gb")

    def _end(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait()


def record(place, gb, n_pairs):
    run = place.checkpoint(Model("legacy", "bf16", gb))
    os.utime(f"{run}/source/latest_checkpointed_iteration.txt")  # the generator writes it first, a trainer last
    saved = os.path.join(place.checkpoint(Model("legacy", "bf16", SAVED_GB)), "source")
    out, target, log = (os.path.join(place.work, name) for name in ("watched", "saved", "watch.log"))
    watch = [place.program("shardweld"), "watch", f"{run}/source", out, "--hf_config", f"{run}/hf", "--interval", "0.2s"]
    job = [sys.executable, os.path.realpath(__file__), saved, target]

    def run_job(options, sampled):
        if options is None:
            return merging.figures(process.run(job, place.log, sampled))
        with Beside([*watch, *options], out, log):
            return merging.figures(process.run(job, place.log, sampled))

    sides = [pairs.Side(name, lambda sampled, given=options: run_job(given, sampled), (out, target)) for name, options in WATCHES.items()]
    inputs = page_cache.files_below(f"{run}/source") + page_cache.files_below(saved)
    pairs.measure(sides, n_pairs, inputs, "warm")
    return dict(key(gb), pairs=n_pairs, input_bytes=sum(map(os.path.getsize, page_cache.files_below(saved))), peak_bytes=0,
                samples={side.name: side.samples for side in sides})


if __name__ == "__main__":
    save(*sys.argv[1:])

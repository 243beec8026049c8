"""A checkpoint read through `shardweld mount`, beside plain reading of the merged files from the page cache, libfuse's own pass-through of these, and
the merge. Knows their command lines; nothing of tables."""
import glob
import os
import subprocess
import time

import merging
import page_cache
import pairs
import process
from place import Model

READ_AHEAD_KB = 8192  # what a mount of root's asks for


def key(layout, gb):
    return {"kind": "mount", "input": layout, "dtype": "bf16", "ranks": 1, "strategy": "direct", "cache": "warm", "fsync": "no", "gb": gb}


def cpu_of(pid):
    """Processor seconds of a process so far, to the hundredth."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_all(directory, server=None):
    """Seconds, and processor seconds of the reader and of a program that serves it."""
    begin, cpu = time.perf_counter(), time.process_time() + (cpu_of(server) if server else 0)
    for path in sorted(glob.glob(os.path.join(directory, "*.safetensors"))):
        page_cache.read_whole(path)
    return {"wall_s": time.perf_counter() - begin, "cpu_s": time.process_time() + (cpu_of(server) if server else 0) - cpu}


def read_twice(directory, server):
    return dict(read_all(directory, server), second_s=read_all(directory)["wall_s"])


class Mounting:
    """The sides of one interleaved run; `passthrough`: libfuse's example passthrough_hp or passthrough_ll, "" without it."""

    def __init__(self, place, layout, gb, passthrough):
        self.place, self.passthrough = place, passthrough
        model = Model(layout, "bf16", gb, *((8, 1) if layout == "legacy" else ()))
        self.checkpoint = place.checkpoint(model)
        self.source = [*model.merged_with(), "--local_dir", f"{self.checkpoint}/source", "--hf_config", f"{self.checkpoint}/hf"]
        self.merged = place.merged(model)
        self.bytes = sum(map(os.path.getsize, glob.glob(f"{self.merged}/*.safetensors")))
        self.point, self.out, self.ready = (os.path.join(place.work, name) for name in ("point", "out", "ready"))
        os.makedirs(self.point, exist_ok=True)

    def _merge(self, path):
        return [self.place.program("shardweld"), "merge", *self.source, "--target_dir", path, "-q", "--no_fsync"]

    def _mount(self, *more):
        return [self.place.program("shardweld"), "mount", *self.source, "--target_dir", self.point, "-q", *more]

    def sides(self):
        sides = [pairs.Side("plain", lambda _: read_all(self.merged)), pairs.Side("mount", self._read),
                 pairs.Side("merge", lambda _: merging.figures(process.run(self._merge(self.out), self.place.log), {}), (self.out,)),
                 pairs.Side("copy", lambda _: merging.figures(process.run(self._mount("--", "cp", "-r", self.point, self.out), self.place.log), {}), (self.out,))]
        return sides + ([pairs.Side("passthrough", self._pass_through)] if self.passthrough else [])

    def inputs(self):
        return self.place.inputs(self.checkpoint) + page_cache.files_below(self.merged)

    def _read(self, _):
        began = time.perf_counter()
        process.run(self._mount("--daemon", "--ready", self.ready), self.place.log)
        ready = time.perf_counter() - began
        with open(self.ready, encoding="ascii") as file:
            server = int(file.read())
        try:
            return dict(read_twice(self.point, server), ready_s=ready, peak_bytes=process.memory_of(server))
        finally:
            process.run([self.place.program("shardweld"), "unmount", self.point], self.place.log)

    def _pass_through(self, _):
        """passthrough_hp takes two directories; passthrough_ll shows the root, of which the model is a part."""
        is_low = self.passthrough.endswith("_ll")
        words = ["-o", "cache=always", self.point] if is_low else [self.merged, self.point]
        with subprocess.Popen([self.passthrough, "-f" if is_low else "--foreground", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            while not os.path.ismount(self.point):
                time.sleep(0.01)
            device = os.stat(self.point).st_dev
            with open(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb", "w", encoding="ascii") as file:
                file.write(str(READ_AHEAD_KB))
            try:
                return read_twice(self.point + (self.merged if is_low else ""), server.pid)
            finally:
                subprocess.run(["umount", self.point], check=True)
                server.wait()


def record(place, layout, gb, n_pairs, passthrough):
    mounting = Mounting(place, layout, gb, passthrough)
    sides = mounting.sides()
    pairs.measure(sides, n_pairs, mounting.inputs(), "warm")
    return dict(key(layout, gb), pairs=n_pairs, input_bytes=mounting.bytes, peak_bytes=int(max(sides[1].samples.pop("peak_bytes"))),
                samples={side.name: side.samples for side in sides})

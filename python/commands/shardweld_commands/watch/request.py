"""What a watch is asked for, and how that is read from its command line. Options of merge are looked at before there is anything to merge."""
import os
import re
import shutil
import subprocess
from typing import List, Tuple

from .. import command
from ..command import NOT_FOUND, UNSUPPORTED, USAGE, Failed, Given
from ..stop import Stop
from .steps import ask

_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+(?=\s|$)""", re.DOTALL)
_PART = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)


def words_of(given: Given, name: str) -> Tuple[str, ...]:
    """Words as a POSIX shell splits them (shlex keeps the backslash of "\\$"); nothing is expanded. The first is a program that is there."""
    text, words = given.get(name).strip(), []
    while text:
        word = _WORD.match(text)
        if not word:
            raise Failed(USAGE, f"--{name} {given.get(name)!r} is not a command line: a quote has no end", "close it")
        words.append(_PART.sub(lambda part: part[1] or (re.sub(r'\\([$`"\\\n])', r"\1", part[2]) if part[2] else part[3] or ""), word[0]))
        text = text[word.end():].strip()
    if name not in given:
        return ()
    if not words:
        raise Failed(USAGE, f"--{name} {given.get(name)!r} names no command", "give a program and its arguments")
    if not shutil.which(words[0]):
        raise Failed(USAGE, f"there is no program {words[0]!r} to run (--{name})", "give its path")
    return tuple(words)


def refuse_ranks() -> None:
    """A watch is one process; its merges have the ranks."""
    sizes = [os.environ.get(name, "") for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "MPI_LOCALNRANKS")]
    if any(size.isdigit() and int(size) > 1 for size in sizes):
        ranks = [os.environ[name] for name in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PALS_RANKID", "SLURM_PROCID") if name in os.environ]
        if ranks and ranks[0] != "0":
            raise SystemExit(USAGE)
        raise Failed(USAGE, "watch is one process, and was started as several ranks",
                     "start it without a launcher, and name that for its merges: shardweld watch RUN OUT --launch 'mpirun -n 4'")


class Request:
    """What a watch is asked for: Failed for what is known to be wrong before there is anything to merge."""

    def __init__(self, given: Given, stop: Stop) -> None:
        also = [found.groups() for found in (re.fullmatch(r"(.+?)(:[^/]*)?", text) for text in given.all("also")) if found]
        self.run, self.outs = os.path.realpath(given.get("local_dir")), [os.path.realpath(name) for name in (given.get("target_dir"), *(out for out, _ in also))]
        self.forms = [form or "" for _, form in also]  # of the outputs behind the first: ":fp32"
        self.launch, self.then = words_of(given, "launch"), words_of(given, "then")
        self.interval = float(given.get("interval", "30"))
        if not self.interval:
            raise Failed(USAGE, "--interval 0 leaves no time between two looks", "give for example 30s")
        first = re.search(r"(\d+)\D*$", given.get("from", "0"))
        if not first:
            raise Failed(USAGE, f"--from {given.get('from')!r} is not a step", "give its number, or its directory's name")
        self.first, self.every, self.keep = int(first[1]), int(given.get("every", "1")), int(given.get("keep", "0"))
        self.idle_exit, self.until, self.metrics = given.seconds("idle_exit"), given.get("until"), given.get("metrics")
        self.skips_lost, self.is_polite = given.get("on_lost") == "skip", given.get("polite") != "no"
        self.delta_dir, self.delta_against = (os.path.realpath(given.get(name)) if name in given else "" for name in ("delta_dir", "delta_against"))
        # Options of upload, in which {n} stands for the step's number, and of the merges.
        self.upload = [f"--{name}={given.get(name)}" for name in ("hf_upload_path", "revision", "hf_cli") if name in given] + ["--private"] * ("private" in given)
        self.is_mounted, stop_at = "mount" in given, given.seconds("stop_at")
        self.merge = given.passed_on + ["--verbose"] * ("verbose" in given)
        if not self.is_mounted:
            self.merge += [f"--stop_before={one}" for one in given.all("stop_before")] + ([f"--stop_at={stop_at:.0f}"] if stop_at else [])
        _check_merge(given)
        # The run's directory need not be there yet; the one above it must.
        hint = "name the directory in which the training run saves its steps"
        if os.path.lexists(self.run) and not os.path.isdir(self.run):
            raise Failed(USAGE, f"{self.run} is a file", hint)
        if not os.path.isdir(self.run) and not os.path.isdir(os.path.dirname(self.run)):
            raise Failed(NOT_FOUND, f"there is no directory {self.run}", hint)
        if self.run in self.outs:
            raise Failed(USAGE, f"{self.run} cannot be watched and written to", "name another directory for the outputs")
        if os.path.isdir(self.run) and ask(self.run)["number"] is not None:
            raise Failed(USAGE, f"{self.run} is a step itself", "watch the directory above it, or merge this one")
        if self.upload:  # client and token
            from ..upload import Upload, check_branch, check_repository, prepare
            check_repository(given.get("hf_upload_path"))
            check_branch(given.get("revision").replace("{n}", "0"))
            prepare(Upload("", given.get("hf_upload_path"), False, "", given.get("hf_cli"), stop))
        if self.delta_dir:
            from ..delta import load_packages
            load_packages()

    def duties(self) -> List[str]:
        """What is owed behind each merge, in its order."""
        return [duty for duty, asked in (("delta", self.delta_dir), ("upload", self.upload), ("then", self.then)) if asked]


def _check_merge(given: Given) -> None:
    for word in given.passed_on:
        if "delta_dir" in given and re.match(r"--(quantize=gguf|output_format=(?!safetensors)|to=(?!hf$)|like=)", word):
            raise Failed(USAGE, f"--delta_dir and {word.partition('=')[0]} exclude each other: deltas are of models in safetensors")
    for name, other in (("delta_against", "delta_dir"), ("revision", "hf_upload_path"), ("private", "hf_upload_path"), ("hf_cli", "hf_upload_path")):
        if name in given and other not in given:
            raise Failed(USAGE, f"--{name} needs --{other}", f"add --{other} {'DIR' if other == 'delta_dir' else 'ORG/NAME'}")
    for name in ("also", "launch", "delta_dir", "hf_upload_path") if "mount" in given else ():
        if name in given:
            raise Failed(USAGE, f"--mount and --{name} exclude each other: nothing is written")
    words = [word for word in given.passed_on if not word.startswith("--log_dir=")] + ["--also=" + also for also in given.all("also")]
    absent = os.path.join(given.get("target_dir"), ".shardweld-no-step")
    tried = command.run(["mount", absent, absent, *words] if "mount" in given else ["plan", absent, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if tried.returncode in (USAGE, UNSUPPORTED):
        lines = [line.strip() for line in tried.stderr.splitlines()]
        raise Failed(tried.returncode, lines[0].partition("error: ")[2] if lines else "merge refuses its options", "; ".join(line.partition("hint: ")[2] for line in lines[1:]))

"""The program's commands as functions."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Sequence, Union

from . import _core
from .__main__ import find_program
from ._errors import UsageError, error_of, python_words
from ._results import CheckResult, Comparison, Examination, Inspection, Plan, Verification

StrPath = Union[str, "os.PathLike[str]"]
OnProgress = Callable[[str, int, int], Any]

_log = logging.getLogger("shardweld")
# Errors, warnings, what a merge tells of its steps, and details of these.
_LEVELS = (logging.ERROR, logging.WARNING, logging.DEBUG, logging.DEBUG)


@dataclass(frozen=True)
class Output:
    """One more model, or with `to` a training checkpoint, that a merge makes of the same checkpoint."""

    directory: StrPath
    dtype: str | None = None
    quantize: str | None = None
    to: str | None = None


@dataclass(frozen=True)
class WrittenOutput:
    """A model that was written. `report` is what docs/using/report.md describes."""

    directory: str
    files: list[str]
    tensors: int
    tensor_bytes: int
    root: str
    report: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class MergeReport:
    """What a merge wrote, in the order of the outputs."""

    outputs: list[WrittenOutput]


def tell(level: int, text: str) -> None:
    """Messages go to the logger "shardweld"; what a merge tells of its steps is for those who debug."""
    _log.log(_LEVELS[level], "%s", python_words(text))


def result_of(text: str) -> dict[str, Any]:
    """What the extension answered, or the exception that it describes."""
    outcome: dict[str, Any] = json.loads(text)
    if "error" in outcome:
        raise error_of(outcome["error"])
    return outcome


def _text_of(value: Any) -> str:
    """A path or another value as text."""
    text = os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{text!r} is no UTF-8", hint="use the program, which takes any path, or a link of another name") from None
    return text


def texts_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as the command line has them; those that are None or False are not given."""
    texts = {}
    for name, value in options.items():
        if value is None or value is False:
            continue
        if isinstance(value, (list, tuple)):
            value = ",".join(_text_of(one) for one in value)
        texts[name] = "true" if value is True else _text_of(value)
    return texts


def request_of(src: StrPath | Sequence[StrPath], options: Mapping[str, Any], also: Sequence[Output] = ()) -> dict[str, Any]:
    """A request of a command. Several checkpoints become their average."""
    inputs = [src] if isinstance(src, (str, bytes, os.PathLike)) else list(src)
    return {"inputs": [_text_of(one) for one in inputs], "options": texts_of(options),
            "also": [texts_of({"target_dir": one.directory, "dtype": one.dtype, "quantize": one.quantize, "to": one.to}) for one in also]}


def merge(src: StrPath | Sequence[StrPath], out: StrPath, *, hf_config: StrPath | None = None, dtype: str | None = None,
          quantize: str | None = None, also: Sequence[Output] = (), report: StrPath | None = None,
          overwrite: bool = False, on_progress: OnProgress | None = None, **options: Any) -> MergeReport:
    """Merges a checkpoint, or the average of several, into the new directory `out`.

    `on_progress(phase, done, total)` is called about ten times a second. Ctrl-C, or an exception of
    `on_progress`, stops the merge; the same call then goes on with what is done. For several ranks start
    `python -m shardweld merge` or the program with mpirun.
    """
    named = {"target_dir": out, "hf_config": hf_config, "dtype": dtype, "quantize": quantize, "report": report, "overwrite": overwrite}
    request = request_of(src, {**options, **named}, also)
    outcome = result_of(_core.merge(json.dumps(request), tell, on_progress))
    if outcome["why_stopped"]:
        raise error_of({"code": 11, "what": outcome["why_stopped"], "where": [], "hint": "call merge again to go on"})
    return MergeReport([WrittenOutput(**one) for one in outcome["outputs"]])


def _examine(command: str, request: dict[str, Any]) -> Examination[Any]:
    return Examination(**result_of(_core.examine(command, json.dumps(request), tell)))


def inspect(src: StrPath, **options: Any) -> Examination[Inspection]:
    """What a checkpoint holds: format, parallel sizes, provenance, every stored tensor. Reads metadata."""
    return _examine("inspect", request_of(src, options))


def plan(src: StrPath | Sequence[StrPath], *, hf_config: StrPath | None = None, dtype: str | None = None,
         quantize: str | None = None, ranks: int = 1, **options: Any) -> Examination[Plan]:
    """What a merge would read, write and need on so many ranks. Writes nothing."""
    named = {"hf_config": hf_config, "dtype": dtype, "quantize": quantize, "ranks": ranks}
    return _examine("plan", request_of(src, {**options, **named}))


def diff(a: StrPath, b: StrPath, **options: Any) -> Examination[Comparison]:
    """Whether two models' tensors are equal, within the options `atol` and `rtol`."""
    return _examine("diff", request_of(a, {**options, "test_hf_dir": b}))


def verify(out: StrPath, *, report: StrPath | None = None, **options: Any) -> Examination[Verification]:
    """Whether a written model keeps the format's rules and has the checksums of its merge's report: the one given, else the
    shardweld_report.json in its directory, if there is one."""
    return _examine("verify", request_of(out, {**options, "report": report}))


_OF_RANKS = ("TORCHELASTIC_", "OMPI_COMM_", "PMIX_", "PMI_", "PALS_RANKID", "MPI_LOCALNRANKS", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS")


def check(out: StrPath, *, target: str | None = None, **options: Any) -> Examination[CheckResult]:
    """Whether a model would load in transformers, or in the server that `target` names."""
    given = texts_of({"target": target, **options})
    words = [f"--{name}={value}" for name, value in {"local_dir": _text_of(out), **given}.items()]
    if any("\0" in word for word in words):
        raise UsageError("a path or an option has a NUL byte", hint="give it without")
    program = find_program()
    if program is None:
        raise error_of({"code": 3, "what": "the program shardweld lies neither beside this Python nor on PATH", "where": [], "hint": "the wheel brings it"})
    # Its own variables would make it one of a launcher's ranks, of which all but the first have nothing to do.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OF_RANKS)}
    done = subprocess.run([program, "check", *words, "--json"], capture_output=True, text=True, check=False, env=environment)
    lines = [line.strip().split(": ", 1) for line in done.stderr.splitlines()]
    said = {line[0]: line[1] for line in reversed(lines) if len(line) == 2}
    what = said.get("error", "check ended without a word")
    if not done.stdout:
        raise error_of({"code": done.returncode, "what": what, "where": [], "hint": said.get("hint", "")})
    return Examination(is_good=done.returncode == 0, why="" if done.returncode == 0 else what, found=json.loads(done.stdout))

"""The program's commands as functions."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence, TypeVar, Union

from . import _core
from ._errors import UsageError, error_of, python_words
from ._program import find_program
from ._results import CheckResult, Comparison, Delta, Examination, Inspection, MergeReport, Plan, Verification, WrittenOutput

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import (CheckOptions, DeltaOptions, DiffOptions, Dtype, Encoding, InspectOptions, MergeOptions, PlanOptions, RecipesOptions,
                           Target, UploadOptions, VerifyOptions, WatchOptions)

StrPath = Union[str, "os.PathLike[str]"]
OnProgress = Callable[[str, int, int], Any]
Kind = TypeVar("Kind", bound=Examination)

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


def tell(level: int, text: str) -> None:
    """Messages go to the logger "shardweld"; what a merge tells of its steps is for those who debug."""
    _log.log(_LEVELS[level], "%s", python_words(text))


def result_of(text: str, source: str | None = None) -> dict[str, Any]:
    """What the extension answered, or the exception that it describes; `source`: what was to be read."""
    outcome: dict[str, Any] = json.loads(text)
    if "error" in outcome:
        raise error_of(outcome["error"], source)
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
        name = name.rstrip("_")  # from_
        if value is None or value is False:
            continue
        if isinstance(value, (list, tuple)):
            value = ",".join(_text_of(one) for one in value)
        texts[name] = "true" if value is True else _text_of(value)
    return texts


def request_of(src: StrPath | Sequence[StrPath], options: Mapping[str, Any], also: Sequence[Output] = ()) -> dict[str, Any]:
    """A request of a command. Several checkpoints become what is asked for."""
    inputs = [src] if isinstance(src, (str, bytes, os.PathLike)) else list(src)
    if len(inputs) > 1 and not any(options.get(name) for name in ("average", "average_weights", "average_decay", "task_arithmetic")):
        raise UsageError("several checkpoints are given", hint="say average=True, or task_arithmetic=BASE and scale=")
    return {"inputs": [_text_of(one) for one in inputs], "options": texts_of(options),
            "also": [texts_of({"target_dir": one.directory, "dtype": one.dtype, "quantize": one.quantize, "to": one.to}) for one in also]}


class _Bar:
    """One bar for all phases of a merge: tqdm's, which knows notebooks, else a line on standard error."""

    def __init__(self, is_shown: bool, on_progress: OnProgress | None) -> None:
        self._is_shown, self._on_progress = is_shown, on_progress
        self._bar: Any = None
        self._phase = ""

    def __enter__(self) -> OnProgress | None:
        if self._is_shown:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that a notebook has no widgets: the bar is text there
                    from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
                self._bar = tqdm(total=1, bar_format="{desc}{percentage:3.0f}%|{bar}| {elapsed}<{remaining}")
            except ImportError:
                pass
        return self._tell if self._is_shown else self._on_progress

    def __exit__(self, failed: object, *_: Any) -> None:
        if self._is_shown and failed is None:
            self._show("merged", 1, 1)
        if self._bar is not None:
            self._bar.close()
        elif self._is_shown:
            sys.stderr.write("\n")

    def _show(self, phase: str, done: int, total: int) -> None:
        """Phases count in units of their own, or in none."""
        if self._bar is None:
            sys.stderr.write(f"\r\x1b[K{phase} {100 * done // max(total, 1)} %")
            return
        if phase != self._phase:
            self._bar.reset(max(total, 1))
            self._bar.set_description(phase, refresh=False)
        self._phase, self._bar.total, self._bar.n = phase, max(total, 1), done
        self._bar.refresh()

    def _tell(self, phase: str, done: int, total: int) -> None:
        self._show(phase, done, total)
        if self._on_progress is not None:
            self._on_progress(phase, done, total)


def reshape(src: StrPath, out: StrPath, *, to: str | None = None, like: StrPath | None = None, dtype: Dtype | None = None,
            hf_config: StrPath | None = None, also: Sequence[Output] = (), overwrite: bool = False, progress: bool = False,
            **options: Unpack[MergeOptions]) -> MergeReport:
    """Writes a training checkpoint in the form `to`, or as the one in `like` is."""
    return merge(src, out, to=to, like=like, dtype=dtype, hf_config=hf_config, also=also, overwrite=overwrite, progress=progress, **options)


def merge(src: StrPath | Sequence[StrPath], out: StrPath, *, hf_config: StrPath | None = None, dtype: Dtype | None = None,
          quantize: Encoding | None = None, to: str | None = None, like: StrPath | None = None, also: Sequence[Output] = (),
          report: StrPath | bool | None = None, overwrite: bool = False, on_progress: OnProgress | None = None, progress: bool = False,
          **options: Unpack[MergeOptions]) -> MergeReport:
    """Merges a checkpoint, or with `average=True` the average of several, into the new directory `out`.

    The report is kept there as shardweld_report.json, or written to `report`; False writes none. `progress=True`
    shows a bar, tqdm's where it is installed. `on_progress(phase, done, total)` is called about ten times a second. Ctrl-C, or an exception of
    `on_progress`, stops the merge; the same call then goes on with what is done. For several ranks start
    `python -m shardweld merge` or the program with mpirun.
    """
    named = {"target_dir": out, "hf_config": hf_config, "dtype": dtype, "quantize": quantize, "to": to, "like": like,
             "report": report or None, "overwrite": overwrite}
    request = {**request_of(src, {**options, **named}, also), "keeps_report": report is not False}
    with _Bar(progress, on_progress) as told:
        outcome = result_of(_core.merge(json.dumps(request), tell, told), ", ".join(request["inputs"]))
    if outcome["why_stopped"]:
        raise error_of({"code": 11, "what": outcome["why_stopped"], "where": [], "hint": "call merge again to go on"})
    return MergeReport([WrittenOutput(**one) for one in outcome["outputs"]])


def _examine(kind: type[Kind], command: str, request: dict[str, Any]) -> Kind:
    outcome = result_of(_core.examine(command, json.dumps(request), tell), ", ".join(request["inputs"]))
    return kind.of(outcome["found"], **outcome)


def inspect(src: StrPath, **options: Unpack[InspectOptions]) -> Inspection:
    """What a checkpoint holds: format, parallel sizes, provenance, every stored tensor. Reads metadata."""
    return _examine(Inspection, "inspect", request_of(src, options))


def plan(src: StrPath | Sequence[StrPath], *, hf_config: StrPath | None = None, dtype: Dtype | None = None,
         quantize: Encoding | None = None, also: Sequence[Output] = (), ranks: int = 1, **options: Unpack[PlanOptions]) -> Plan:
    """What a merge would read, write and need on so many ranks. Writes nothing."""
    named = {"hf_config": hf_config, "dtype": dtype, "quantize": quantize, "ranks": ranks}
    return _examine(Plan, "plan", request_of(src, {**options, **named}, also))


def diff(a: StrPath, b: StrPath, **options: Unpack[DiffOptions]) -> Comparison:
    """Whether two models' tensors are equal, within the options `atol` and `rtol`."""
    return _examine(Comparison, "diff", request_of(a, {**options, "test_hf_dir": b}))


def verify(out: StrPath, *, report: StrPath | None = None, **options: Unpack[VerifyOptions]) -> Verification:
    """Whether a written model keeps the format's rules and has the checksums of its merge's report: the one given, else the
    shardweld_report.json in its directory, if there is one."""
    return _examine(Verification, "verify", request_of(out, {**options, "report": report}))


_OF_RANKS = ("TORCHELASTIC_", "OMPI_COMM_", "PMIX_", "PMI_", "PALS_RANKID", "MPI_LOCALNRANKS", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS")


def _run(command: str, places: Sequence[StrPath], options: Mapping[str, Any], is_json: bool = True) -> subprocess.CompletedProcess[str]:
    """The program's own command, which is a process of one rank; what it says goes to the logger."""
    words = [_text_of(place) for place in places]
    for name, value in options.items():
        for one in value if name == "also" and isinstance(value, (list, tuple)) else [value]:
            words += [f"--{key}" if text == "true" else f"--{key}={text}" for key, text in texts_of({name: one}).items()]
    if any("\0" in word for word in words):
        raise UsageError("a path or an option has a NUL byte", hint="give it without")
    program = find_program()
    if program is None:
        raise error_of({"code": 3, "what": "the program shardweld lies neither beside this Python nor on PATH", "where": [], "hint": "the wheel brings it"})
    # Its own variables would make it one of a launcher's ranks, of which all but the first have nothing to do.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OF_RANKS)}
    done = subprocess.run([program, *command.split(), *words, *["--json"] * is_json], capture_output=True, text=True, check=False, env=environment)
    said = done.stderr.strip()
    if done.returncode in (0, 13, 14) and (done.stdout or done.returncode == 0):
        if said:
            tell(2, said)
        return done
    lines = [line.strip().partition(": ") for line in said.splitlines()]
    fault = {key: text for key, _, text in reversed(lines)}
    raise error_of({"code": done.returncode, "what": fault.get("error", said or f"{command} ended with code {done.returncode}"),
                    "where": [fault["where"]] if "where" in fault else [], "hint": fault.get("hint", "")}, str(places[0]) if places else None)


def check(out: StrPath, *, target: Target | None = None, **options: Unpack[CheckOptions]) -> CheckResult:
    """Whether a model would load in transformers, or in the server that `target` names."""
    done = _run("check", [out], {"target": target, **options})
    why = next((line[7:] for line in done.stderr.splitlines() if line.startswith("error: ")), "")
    found = json.loads(done.stdout)
    return CheckResult.of(found, is_good=done.returncode == 0, why=why, found=found)


def delta(prev: StrPath, new: StrPath, directory: StrPath, **options: Unpack[DeltaOptions]) -> Delta:
    """Writes what changed from one model to the next, for rollout engines, and tells what was written."""
    found = json.loads(_run("delta", [prev, new, directory], options).stdout)
    return Delta.of(found, is_good=True, why="", found=found)


def watch(run: StrPath, out: StrPath, **options: Unpack[WatchOptions]) -> None:
    """Merges each step of a training run once it is complete; `idle_exit=0` makes what is there and returns."""
    _run("watch", [run, out], options, is_json=False)


def upload(out: StrPath, repository: str, **options: Unpack[UploadOptions]) -> None:
    """Uploads a written model to a repository of the Hub."""
    _run("upload", [out, repository], options, is_json=False)


def report(out: StrPath, *, html: StrPath | None = None) -> str:
    """The report of a run as text; with `html` also as a page."""
    if html is not None:
        _run("report", [out], {"html": html}, is_json=False)
    return _run("report", [out], {}, is_json=False).stdout


def recipes(name: str | None = None, **options: Unpack[RecipesOptions]) -> str:
    """The model families, or the recipe of one, as text."""
    return _run("recipes", [name] if name else [], options, is_json=False).stdout


def clean(directory: StrPath, *, dry_run: bool = False, older_than: str | None = None) -> dict[str, Any]:
    """Removes what killed merges left below a directory, and tells what that was."""
    told: dict[str, Any] = json.loads(_run("clean", [directory], {"dry_run": dry_run, "older_than": older_than}).stdout)
    return told

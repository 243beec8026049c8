"""`shardweld check`: whether a model directory would load where it is to be served, by the rules of the programs that load it, without running them.

Which program asks for what stands in a module for each (transformers, vllm, sglang, tgi, llama_cpp), as rules with their sources; what a model of a
family has comes from `shardweld recipes --config DIR --json`.
"""
import json
import os
import sys
from typing import List

from ..text import counted, printable, table, wrapped
from . import llama_cpp, sglang, tgi, transformers, vllm
from ..command import JSON, QUIET, STRICT, USAGE, VERBOSE, Command, Failed, Given, Option
from .model import Family, Finding, Loader, Model, family_of
from .reading import read_directory
from .rules import findings_of

LOADERS = {one.name: one for one in (transformers.LOADER, vllm.LOADER, sglang.LOADER, tgi.LOADER, llama_cpp.LOADER)}
_SCHEMA = 1


def _devices_text(model: Model) -> str:
    return (f" --tp {model.tp}" if model.tp > 1 else "") + (f" --pp {model.pp}" if model.pp > 1 else "")


def _verdict_on(model: Model, n_errors: int) -> str:
    """Of a family whose names are known to no recipe nothing is promised for engines that have names of their own."""
    has_own_names = model.loader.name not in ("transformers", "llama.cpp")
    return "refused" if n_errors else "not_known" if has_own_names and not model.family.name else "ok"


def _verdict(model: Model, findings: List[Finding]) -> str:
    """"OK: merged should load in vLLM with --tp 8 (1 warning)"."""
    n_errors = sum(finding.is_fatal for finding in findings)
    counts = [counted(n, noun) for n, noun in ((n_errors, "error"), (len(findings) - n_errors, "warning")) if n]
    name, title, devices = printable(model.directory.path, 4096), model.loader.title, _devices_text(model)
    text = {"refused": f"NOT OK: {title} would refuse {name}, or load it wrongly", "ok": f"OK: {name} should load in {title}",
            "not_known": f"NOT KNOWN: no recipe has the names of this family, and {title} has its own: {name} may load"}[_verdict_on(model, n_errors)]
    text += f"{',' if n_errors else ''} with{devices}" if devices else ""
    return text + (f" ({', '.join(counts)})" if counts else "")


def _text_of(model: Model, findings: List[Finding]) -> str:
    """A table whose last cell is broken where the terminal ends."""
    room = os.get_terminal_size().columns - 13 - max((len(one.rule) for one in findings), default=0) if sys.stdout.isatty() else 0
    rows = []
    for one in findings:
        lines = [line for text in (one.text, f"hint: {one.hint}") for line in wrapped(text, 0, room if room > 24 else 1 << 20).splitlines()]
        rows += [("error" if one.is_fatal else "warning", one.rule, lines[0]), *(("", "", line) for line in lines[1:])]
    return table("<<<", rows) + _verdict(model, findings)


def _json_of(model: Model, findings: List[Finding]) -> str:
    told = {"schema": _SCHEMA, "directory": model.directory.path, "target": model.loader.name, "tp": model.tp, "pp": model.pp,
            "verdict": _verdict_on(model, sum(one.is_fatal for one in findings)),
            "findings": [{"fatal": one.is_fatal, "rule": one.rule, "text": one.text, "hint": one.hint} for one in findings]}
    return json.dumps(told, indent=2)


def read_model(path: str, loader: Loader, tp: int = 1, pp: int = 1) -> Model:
    """The directory as the loader meets it. Failed."""
    directory = read_directory(path, loader.name == "llama.cpp", loader.takes_safetensors)
    has_family = loader.name != "llama.cpp" and directory.config_text is not None
    return Model(directory, loader, family_of(path) if has_family else Family(), tp, pp)


def _number(given: Given, name: str) -> int:
    text = given.get(name, "1")
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:20]) < 1 << 31:
        raise Failed(USAGE, f"--{name} {printable(text)} is not a number in its range", f"give one from 1 to {(1 << 31) - 1}")
    return int(text)


def check(given: Given) -> int:
    path = given.get("local_dir")
    if not path:
        raise Failed(USAGE, "no directory is given", f"usage: {COMMAND.usage}")
    model = read_model(path, LOADERS[given.get("target", "transformers")], _number(given, "tp"), _number(given, "pp"))
    findings = findings_of(model)
    print(_json_of(model, findings) if "json" in given else _text_of(model, findings), flush=True)
    n_errors = sum(finding.is_fatal for finding in findings)
    if n_errors:
        devices = _devices_text(model)
        raise Failed(STRICT, f"{counted(n_errors, 'error')}: {model.loader.title} would refuse this model, or load it wrongly{', with' + devices if devices else ''}")
    return 0


COMMAND = Command(
    "check", "shardweld check DIR [--target NAME] [--tp N] [--pp N] [options]", "check that a model will load in vLLM, SGLang, TGI, llama.cpp or transformers",
    """Looks at names, shapes and configurations, runs nothing, and ends with a verdict. Exit code 14 if it would not load.
--tensor-parallel-size is understood, too.

Examples:
  shardweld check merged
  shardweld check merged --target vllm --tp 8
""", check, (
        Option("local_dir", "DIR", "the model that was written", group="Input", kind="directory"),
        Option("target", "NAME", "the program that loads it: transformers (default), vllm, sglang, tgi or llama.cpp", group="Serving", words=tuple(LOADERS)),
        Option("tp", "N", "tensor parallel size: the GPUs that share each layer (default 1)", group="Serving"),
        Option("pp", "N", "pipeline parallel size: the stages that share the layers (default 1)", group="Serving"),
        Option("progress", "STYLE", "taken as by other commands; there is none to show", group=""), JSON, VERBOSE, QUIET),
    ("local_dir",), exit_codes=((STRICT, "the program would refuse the model, or load it wrongly"),))

"""`shardweld check`: whether a model directory would load where it is to be served, by the rules of the programs that load it, without running them.

Which program asks for what stands in rules with their sources, and which files each reads in transformers, servers and llama_cpp; what a model of a
family has comes from `shardweld recipes --config DIR --json`.
"""
import json
import os
import sys
from typing import Any, Dict, List, NamedTuple

from ..text import counted, printable, table, wrapped
from . import llama_cpp, servers, transformers
from ..command import STRICT, Command, Failed, Given, complain, on_terminal
from .model import Family, Finding, Model, family_of
from .reading import read_directory
from .rules import findings_of

LOADERS = {one.name: one for one in (transformers.LOADER, servers.VLLM, servers.SGLANG, servers.TGI, llama_cpp.LOADER)}


class Answer(NamedTuple):
    """What a loader would say to a directory."""
    model: Model
    findings: List[Finding]

    @property
    def n_errors(self) -> int:
        return sum(finding.is_fatal for finding in self.findings)

    @property
    def devices(self) -> str:
        return "".join(f" --{name} {count}" for name, count in (("tp", self.model.tp), ("pp", self.model.pp)) if count > 1)

    @property
    def verdict(self) -> str:
        """Of a family whose names are known to no recipe nothing is promised for engines that have names of their own."""
        has_own_names = self.model.loader.name not in ("transformers", "llama.cpp")
        return "refused" if self.n_errors else "not_known" if has_own_names and not self.model.family.name else "ok"

    def line(self) -> str:
        """"OK: merged should load in vLLM with --tp 8 (1 warning)"."""
        counts = [counted(n, noun) for n, noun in ((self.n_errors, "error"), (len(self.findings) - self.n_errors, "warning")) if n]
        name, title = printable(self.model.directory.path, 4096), self.model.loader.title
        text = {"refused": f"NOT OK: {title} would refuse {name}, or load it wrongly", "ok": f"OK: {name} should load in {title}",
                "not_known": f"NOT KNOWN: no recipe has the names of this family, and {title} has its own: {name} may load"}[self.verdict]
        text += f"{',' if self.n_errors else ''} with{self.devices}" if self.devices else ""
        return text + (f" ({', '.join(counts)})" if counts else "")

    def text(self) -> str:
        """A table whose last cell is broken where the terminal ends."""
        room = os.get_terminal_size().columns - 13 - max((len(one.rule) for one in self.findings), default=0) if sys.stdout.isatty() else 0
        rows = []
        for one in self.findings:
            lines = [line for text in (one.text, f"hint: {one.hint}") for line in wrapped(text, 0, room if room > 24 else 1 << 20).splitlines()]
            rows += [("error" if one.is_fatal else "warning", one.rule, lines[0]), *(("", "", line) for line in lines[1:])]
        return table("<<<", rows) + on_terminal(self.line(), sys.stdout)

    def fields(self) -> Dict[str, Any]:
        return {"ok": self.verdict == "ok", "dir": self.model.directory.path, "directory": self.model.directory.path, "target": self.model.loader.name, "tp": self.model.tp, "pp": self.model.pp, "verdict": self.verdict,
                "findings": [{"fatal": one.is_fatal, "rule": one.rule, "text": one.text, "hint": one.hint} for one in self.findings]}

    def refusal(self) -> str:
        return f"{counted(self.n_errors, 'error')}: {self.model.loader.title} would refuse this model, or load it wrongly" + \
            (f", with{self.devices}" if self.devices else "")


def check(given: Given) -> int:
    """Of several directories those that cannot be read are told, and the worst code is returned."""
    paths, targets, tp, pp = given.all("local_dir"), given.all("target") or ["transformers"], int(given.get("tp", "1")), int(given.get("pp", "1"))
    is_one, code = len(paths) == len(targets) == 1, 0
    answers: List[Answer] = []
    for path in paths:
        try:
            for loader in (LOADERS[target] for target in targets):
                directory = read_directory(path, loader.name == "llama.cpp", loader.takes_safetensors)
                has_family = loader.name != "llama.cpp" and directory.config_text is not None
                model = Model(directory, loader, family_of(path) if has_family else Family(), tp, pp)
                answers.append(Answer(model, findings_of(model)))
                print(answers[-1].text(), flush=True) if "json" not in given else None
        except Failed as failed:
            if len(paths) == 1:
                raise
            complain(failed)
            code = max(code, failed.code)
    if "json" in given:
        told = answers[0].fields() if is_one else {"ok": code == 0 and all(one.verdict == "ok" for one in answers), "answers": [answer.fields() for answer in answers]}
        print(json.dumps({"schema": 1, **told}, indent=2), flush=True)
    refused = [answer for answer in answers if answer.n_errors]
    if refused:
        raise Failed(max(code, STRICT), refused[0].refusal() if is_one else f"{len(refused)} of {counted(len(answers), 'answer')} are NOT OK")
    return code


COMMAND = Command("check", check)

"""All rules: rules.txt has a row for each, in the order in which they are checked: its name, what it asks for, the loaders that do, and what was run,
or which code was read, with its version. What looks for it is the function rule_NAME of a module."""
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple

from . import config_rules, llama_cpp, parallel_rules, quantisation_rules, tensor_rules, weights
from .model import Finding, Findings, Model

_LOOKS: Dict[str, Callable[[Model, Findings], None]] = {
    name[len("rule_"):].replace("_", "-"): look for module in (weights, config_rules, tensor_rules, quantisation_rules, parallel_rules, llama_cpp)
    for name, look in vars(module).items() if name.startswith("rule_")}


class Rule(NamedTuple):
    name: str
    text: str
    loaders: str
    source: str


def all_rules() -> List[Rule]:
    return [Rule(*row.split(" | ")) for row in Path(__file__).with_name("rules.txt").read_text(encoding="utf-8").splitlines()]


def findings_of(model: Model) -> List[Finding]:
    """What would go wrong, the fatal ones first."""
    found: List[Finding] = []
    for rule in all_rules():
        if model.loader.name in rule.loaders.split(", "):
            told = Findings(rule.name, found)
            _LOOKS[rule.name](model, told)
            told.end()
    return sorted(found, key=lambda finding: not finding.is_fatal)

"""What the commands find, as they print it with --json. Fields that are not declared here are there, too (docs/using/report.md)."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Generic, TypeVar

Found = TypeVar("Found")


@dataclass(frozen=True, repr=False)
class Examination(Generic[Found]):
    """What a command found: `why` says in a sentence what is wrong or different, `found` has all of it."""

    is_good: bool
    why: str
    found: Found = field(repr=False)

    def __bool__(self) -> bool:
        return self.is_good

    def _rows(self) -> list[tuple[str, str]]:
        """What fits on a line each: values as they are, of lists how many there are."""
        rows = [("good", "yes")] if self.is_good else [("good", "NO"), ("why", self.why)]
        found: Any = self.found
        for key, value in found.items() if isinstance(found, dict) else ():
            is_many = isinstance(value, (list, dict)) and len(str(value)) > 100
            rows.append((key, f"{len(value)} of them" if is_many else str(value)))
        return [(key, value) for key, value in rows if key not in ("schema", "ok")]

    def __repr__(self) -> str:
        rows = self._rows()
        width = max(len(key) for key, _ in rows)
        return "\n".join(f"{key:{width}}  {value}" for key, value in rows)

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th style='text-align:left'>{html.escape(key)}</th><td style='text-align:left'>{html.escape(value)}</td></tr>"
                        for key, value in self._rows())
        return f"<table>{cells}</table>"


class Record(Dict[str, Any]):
    """An object that a command printed. Its fields are attributes and items: `plan.found.total_bytes` and `plan.found["total_bytes"]`."""

    if not TYPE_CHECKING:  # which know the fields that are declared

        def __getattr__(self, name):
            try:
                return self[name]
            except KeyError:
                raise AttributeError(f"there is no {name}: there are {', '.join(self)}") from None


class StoredTensor(Record):
    """A tensor of a checkpoint, by the trainer's name."""

    name: str
    dtype: str
    shape: list[int]
    bytes: int
    shards: int
    replicas: int


class Inspection(Record):
    """Of `inspect`."""

    dir: str
    format: str
    dialect: str
    facts: dict[str, Any]  # parallel sizes, iteration
    files: list[dict[str, Any]]
    tensors: list[StoredTensor]
    ignored: list[dict[str, Any]]
    provenance: dict[str, Any]
    notes: list[str]
    warnings: dict[str, Any]


class PlannedTensor(Record):
    """A tensor that a merge would write, by HuggingFace's name."""

    name: str
    dtype: str
    shape: list[int]
    bytes: int
    file: str
    offset: int
    sources: list[str]


class Plan(Record):
    """Of `plan`."""

    ranks: int
    recipe: str
    strategy: str
    files: list[dict[str, Any]]
    tensors: list[PlannedTensor]
    total_bytes: int
    network_bytes: int
    peak_bytes: int  # of the rank that needs most
    rounds: int
    ledger: dict[str, Any]
    advice: dict[str, Any]
    warnings: list[dict[str, Any]]


class Comparison(Record):
    """Of `diff`."""

    result: str
    tested: str
    reference: str
    n_equal: int
    n_same_bits: int
    n_different: int
    tensors: list[dict[str, Any]]
    config: list[Any]


class Verification(Record):
    """Of `verify`."""

    directory: str
    tensors: int
    tensor_bytes: int
    files: int
    contents_checked: bool
    differences: list[Any]


class Finding(Record):
    """A reason for which a model would not load, where `fatal`, or not work as it should."""

    rule: str
    text: str
    hint: str
    fatal: bool


class CheckResult(Record):
    """Of `check`."""

    directory: str
    target: str
    tp: int
    pp: int
    findings: list[Finding]

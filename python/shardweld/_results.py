"""What the commands find and write."""

from __future__ import annotations

import html
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Iterator, Mapping, TypeVar

Kind = TypeVar("Kind", bound="Part")


class Shown:
    """What is shown as a table, in a terminal and in a notebook."""

    def _rows(self) -> Iterator[tuple[str, str]]:
        raise NotImplementedError

    def __repr__(self) -> str:
        rows = list(self._rows())
        width = max(len(key) for key, _ in rows)
        return "\n".join(f"{key:{width}}  {value}" for key, value in rows)

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th style='text-align:left'>{html.escape(key)}</th><td style='text-align:left'>{html.escape(value)}</td></tr>"
                        for key, value in self._rows())
        return f"<table>{cells}</table>"


@dataclass(frozen=True)
class Part:
    """An object of what a command prints with --json, by its fields: `tensor.name`, or `tensor["name"]`."""

    parts: ClassVar[Mapping[str, type[Part]]] = {}  #: of which class the objects in a field's list are

    @classmethod
    def of(cls: type[Kind], told: Mapping[str, Any], **more: Any) -> Kind:
        """The part that an object, as it was printed, tells of; what it has not keeps the class's default."""
        names = {one.name for one in fields(cls)} - set(more)
        values = {name: [cls.parts[name].of(one) for one in value] if name in cls.parts else value for name, value in told.items() if name in names}
        return cls(**values, **more)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


@dataclass(frozen=True, repr=False)
class Examination(Shown, Part):
    """What a command found: it is true where nothing is wrong or different, and `why` says in a sentence what is. The fields of its class are typed;
    `found` is all that the command prints with --json, and items are those of `found`: `plan.total_bytes`, `plan["advice"]["ranks"]`."""

    is_good: bool
    why: str
    found: dict[str, Any]

    def __bool__(self) -> bool:
        return self.is_good

    def __getitem__(self, name: str) -> Any:
        return self.found[name]

    def _rows(self) -> Iterator[tuple[str, str]]:
        """What there is, on a line each: values as people write them, of long lists how many there are."""
        yield from [("good", "yes")] if self.is_good else [("good", "NO"), ("why", self.why)]
        for key, value in self.found.items():
            if key not in ("schema", "ok", "directory") and _shown(value):
                yield key, _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (dict, list)):
        items = [(f"{key} ", one) for key, one in value.items()] if isinstance(value, dict) else [("", one) for one in value]
        text = ", ".join(key + _shown(one) for key, one in items if not isinstance(one, (dict, list)))
        return text if len(text) <= 160 and not any(isinstance(one, (dict, list)) for _, one in items) else f"{len(value)} of them"
    return "" if value is None else str(value)


@dataclass(frozen=True)
class StoredTensor(Part):
    """A tensor of a checkpoint, by the trainer's name."""

    name: str
    dtype: str
    shape: list[int]
    bytes: int
    shards: int = 1
    replicas: int = 0


@dataclass(frozen=True, repr=False)
class Inspection(Examination):
    """What `inspect` found. Fields of a checkpoint are empty where it looked at a single file, or with `steps`."""

    parts = {"tensors": StoredTensor}

    dir: str
    format: str = ""
    dialect: str = ""
    facts: dict[str, Any] = field(default_factory=dict)  # parallel sizes, iteration
    files: list[dict[str, Any]] = field(default_factory=list)
    tensors: list[StoredTensor] = field(default_factory=list)
    ignored: list[dict[str, Any]] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)  # with `steps`


@dataclass(frozen=True)
class PlannedTensor(Part):
    """A tensor that a merge would write, by HuggingFace's name."""

    name: str
    dtype: str
    shape: list[int]
    bytes: int
    file: str
    offset: int
    sources: list[str]


@dataclass(frozen=True, repr=False)
class Plan(Examination):
    """What `plan` forecasts."""

    parts = {"tensors": PlannedTensor}

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


@dataclass(frozen=True, repr=False)
class Comparison(Examination):
    """What `diff` found."""

    result: str
    tested: str
    reference: str
    n_equal: int
    n_same_bits: int
    n_different: int
    tensors: list[dict[str, Any]]
    config: list[Any]


@dataclass(frozen=True, repr=False)
class Verification(Examination):
    """What `verify` found."""

    directory: str
    tensors: int
    tensor_bytes: int
    files: int
    contents_checked: bool
    differences: list[Any]


@dataclass(frozen=True)
class Finding(Part):
    """A reason for which a model would not load, where `fatal`, or not work as it should."""

    rule: str
    text: str
    hint: str
    fatal: bool


@dataclass(frozen=True, repr=False)
class CheckResult(Examination):
    """What `check` found."""

    parts = {"findings": Finding}

    directory: str
    target: str
    tp: int
    pp: int
    verdict: str
    findings: list[Finding]

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield from (row for row in super()._rows() if row[0] != "findings")
        for one in self.findings:
            yield "error" if one.fatal else "warning", f"{one.rule}: {one.text}; hint: {one.hint}"


@dataclass(frozen=True, repr=False)
class Delta(Examination):
    """What `delta` wrote."""

    directory: str  # of the version
    version: str
    base_version: str
    tensors: int
    changed: int
    files: int
    delta_bytes: int
    model_bytes: int
    pays: bool  # to send it costs much less than the model


@dataclass(frozen=True)
class WrittenOutput:
    """A model that was written. `report` is what docs/using/report.md describes; `root` is the hash of all tensors."""

    directory: str
    files: list[str]
    tensors: int
    tensor_bytes: int
    root: str
    report: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, repr=False)
class MergeReport(Shown):
    """What a merge wrote, in the order of the outputs."""

    outputs: list[WrittenOutput]

    def _rows(self) -> Iterator[tuple[str, str]]:
        for one in self.outputs:
            yield one.directory, f"{one.tensors:,} tensors, {one.tensor_bytes:,} bytes in {len(one.files)} file{'s' * (len(one.files) != 1)}; hash {one.root}"

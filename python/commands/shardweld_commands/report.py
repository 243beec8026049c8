"""`shardweld report`: what the report of a run says, for a terminal or as a page. The file is of unknown origin: what is not there, or is something
else than it should be, counts as not said, and everything is made safe before it is shown."""
import json
import math
import os
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from .command import CORRUPT, UNSUPPORTED, USAGE, Command, Failed, Given
from .files import read_bytes, write_file
from .redact import without_secrets
from .text import bar, counted, duration, human_bytes, percent, printable, table, wrapped

KEPT_REPORT = "shardweld_report.json"
_LARGEST_REPORT = 1 << 30
_LONGEST_TEXT, _LONGEST_LINE, _PAGE_WIDTH = 4000, 1000, 96
_MOST_ROWS, _MOST_LINES, _MOST_PHASES, _MOST_LISTED, _LARGEST_SHOWN = 4096, 200, 64, 200, 12
_SHOWN_RANKS, _SHOWN_LOSSES = 32, 20
_YEAR = 366 * 86400.0
_MOST_BYTES = (1 << 64) - 1

Pairs = List[Tuple[str, str]]
Sizes = List[Tuple[str, int]]


@dataclass
class Phases:
    """Names and seconds, in their order."""
    each: List[Tuple[str, float]]

    def seconds(self, name: Optional[str] = None) -> float:
        """Of all, or of those of this name."""
        return sum(seconds for one, seconds in self.each if name is None or one == name)


@dataclass
class Rank:
    rank: int
    host: str
    peak: int
    read: int
    sent: int
    written: int
    phases: Phases


@dataclass
class Row:
    """Where bytes of the ledger went."""
    fate: str  # written, replica, padding, ignored
    name: str
    reason: str
    bytes: int


@dataclass
class Check:
    """Whether something about the run is as it should be."""
    state: str  # good, in part, bad, unknown
    name: str
    text: str


@dataclass
class Record:
    """What a run found and did."""
    title: str = ""
    tool: str = ""
    code: int = 0
    ending: str = ""           # "ok", or the error's name
    is_published: bool = True  # the model got its name
    message: str = ""
    command: str = ""          # as typed, with its launcher
    command_note: str = ""     # what is not known of the launcher
    started: str = ""          # "2026-02-28 23:59 UTC"
    model: str = ""
    target: str = ""
    input: str = ""
    format: str = ""
    n_ranks: int = 0
    facts: Pairs = field(default_factory=list)
    warnings: Pairs = field(default_factory=list)
    checks: List[Check] = field(default_factory=list)
    phases: Phases = field(default_factory=lambda: Phases([]))
    ranks: List[Rank] = field(default_factory=list)
    ledger: List[Row] = field(default_factory=list)
    stored: int = 0
    files: Sizes = field(default_factory=list)
    largest: Sizes = field(default_factory=list)  # tensors
    n_tensors: int = 0
    tensor_bytes: int = 0

    def headline(self) -> str:
        """"Qwen3ForCausalLM in merged": the model and where it is, or what else is known."""
        name = os.path.basename(self.target.rstrip("/"))
        if self.model:
            return self.model + (f" in {name}" if name else "")
        return self.title + (f" into {name}" if name else "")

    def shown_ranks(self, most: int) -> List[Rank]:
        """The ranks worth a line each, where there are too many for all: evenly chosen, with the one that took longest."""
        slowest = max(self.ranks, key=lambda rank: rank.phases.seconds(), default=None)
        step = max(1, -(-len(self.ranks) // most))
        return [rank for at, rank in enumerate(self.ranks) if at % step == 0 or rank is slowest]


# The JSON.

def _member(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _elements(value: Any, most: int) -> List[Any]:
    return value[:most] if isinstance(value, list) else []


def _shown(value: Any) -> str:
    """Text, number or truth value as text without secrets, which older versions wrote down."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value) if math.isfinite(value) else ""
    if not isinstance(value, str):
        return ""
    long = value[:2 * _LONGEST_TEXT]
    # A secret that was cut in two is not known for one.
    whole = long if long == value else long.rpartition(" ")[0]
    text = without_secrets(whole)
    return text if whole == value and len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + " ..."


def _integer(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else 0


def _bytes(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_BYTES else 0


def _seconds(value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return min(max(float(value), 0.0), _YEAR) if is_number else 0.0


def _line(value: Any) -> str:
    """A value of any kind on one line: "tp 2, pp 4"."""
    if not isinstance(value, (dict, list)):
        return _shown(value)
    items = [(f"{name} ", value[name]) for name in sorted(value)] if isinstance(value, dict) else [("", one) for one in value]
    texts = [name + ("..." if isinstance(one, (dict, list)) else _shown(one)) for name, one in items[:_MOST_LISTED]]
    return ", ".join(texts + ["..."] * (len(items) > _MOST_LISTED))


def _phases(value: Any) -> Phases:
    return Phases([(_shown(_member(phase, "name")), _seconds(_member(phase, "wall_s"))) for phase in _elements(value, _MOST_PHASES)])


def _rank(value: Any) -> Rank:
    return Rank(_integer(_member(value, "rank")), _shown(_member(value, "host")), _bytes(_member(value, "peak_bytes")), _bytes(_member(value, "bytes_read")),
                _bytes(_member(value, "bytes_sent")), _bytes(_member(value, "bytes_written")), _phases(_member(value, "phases")))


def _ledger(ledger: Any, is_there: bool) -> List[Row]:
    rows = [Row("written", "written" if is_there else "planned", "in the model, each element once" if is_there else "but not published",
                _bytes(_member(ledger, "consumed"))),
            Row("replica", "replicas", "held again by other files", _bytes(_member(ledger, "replica"))),
            Row("padding", "padding", "rows that only fill the vocabulary up", _bytes(_member(ledger, "padding")))]
    # Several checkpoints have rows of their own for what is left aside in each: equal ones are one.
    ignored: Dict[Tuple[str, str], Row] = {}
    for told in _elements(_member(ledger, "ignored"), _MOST_ROWS):
        name, reason = _shown(_member(told, "pattern")), _shown(_member(told, "reason"))
        ignored.setdefault((name, reason), Row("ignored", name, reason, 0)).bytes += _bytes(_member(told, "bytes"))
    return rows + list(ignored.values())


def _hosts(value: Any) -> str:
    """Hosts with their numbers of ranks: "node1 x 8, node2 x 8"."""
    hosts: List[List[Any]] = []
    for host in _elements(value, _MOST_ROWS):
        name = _shown(host)
        if not hosts or hosts[-1][0] != name:
            hosts.append([name, 0])
        hosts[-1][1] += 1
    return ", ".join(name + (f" x {count}" if count > 1 else "") for name, count in hosts)


def _facts(root: Any) -> Pairs:
    parallel = _member(root, "input", "facts")
    if isinstance(parallel, dict):
        parallel = {name: value for name, value in parallel.items() if name not in ("t", "te")}  # as recipes compute with them
    why = _shown(_member(root, "plan", "why"))
    resume = _member(root, "resume")
    facts = [("parallel sizes", _line(parallel)),
             ("taken up", f"{human_bytes(_bytes(_member(resume, 'bytes_reused')))} that an earlier merge had written" if isinstance(resume, dict) else ""),
             ("strategy", _shown(_member(root, "plan", "strategy")) + (f": {why}" if why else "")),
             ("plan", _shown(_member(root, "plan", "hash"))), ("root of all tensors", _shown(_member(root, "root")))]
    environment = _member(root, "environment")
    for name in sorted(environment) if isinstance(environment, dict) else []:
        if name not in ("command_line", "launcher", "launcher_unseen", "started"):
            facts.append((printable(name), _hosts(environment[name]) if name == "hosts" else _line(environment[name])))
    return [fact for fact in facts if fact[1]]


def _command(environment: Any, n_ranks: int) -> Tuple[str, str]:
    """The command with its launcher, and what is not known of that."""
    own, launcher = _shown(_member(environment, "command_line")), _shown(_member(environment, "launcher"))
    is_whole = own != "" and launcher.endswith(own[own.find(" ") + 1:])  # launchers may write the program with its directory
    if launcher and not is_whole:
        return own, f"started by {launcher}"
    if not launcher and n_ranks > 1:
        return own, _shown(_member(environment, "launcher_unseen")) or "how the ranks were started is not known"
    return launcher if is_whole else own, ""


def _minute(value: Any) -> str:
    """"2026-02-28T23:59:59Z" as "2026-02-28 23:59 UTC"; anything else is no time."""
    text = _shown(value)
    return f"{text[:10]} {text[11:16]} UTC" if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", text) else ""


def _checks(root: Any, record: Record) -> List[Check]:
    checks = [Check("bad" if record.code else "good", "the run", f"ended with code {record.code}" if record.code else "ended well")]
    standing, evidence = _shown(_member(root, "provenance", "standing")), _line(_member(root, "provenance", "evidence"))
    checks.append(Check({"proved": "good", "consistent": "in part"}.get(standing, "unknown"), "every file in its place, of one save",
                        "not looked at" if not evidence and standing == "unknown" else f"{standing}: {evidence}"))
    crc = _member(root, "crc")
    if isinstance(crc, dict):
        unchecked, without = _bytes(_member(crc, "unchecked_records")), _bytes(_member(crc, "without"))
        text = f"{_bytes(_member(crc, 'records'))} records ({human_bytes(_bytes(_member(crc, 'bytes')))}) are as they state"
        text += (f", {unchecked} were read only in part" if unchecked else "") + (f", {without} state none" if without else "")
        checks.append(Check("in part" if unchecked + without else "good", "checksums of the input", text))
    else:
        checks.append(Check("unknown", "checksums of the input", "not looked at"))
    accounted = min(sum(row.bytes for row in record.ledger), _MOST_BYTES)
    checks.append(Check(*(("unknown", "every stored byte accounted for", "nothing was read") if record.stored == 0 else
                          ("good", "every stored byte accounted for", f"{human_bytes(record.stored)} in all") if accounted == record.stored else
                          ("bad", "every stored byte accounted for", f"{human_bytes(accounted)} of {human_bytes(record.stored)}"))))
    odd, is_looked_at = len(_elements(_member(root, "sanity", "tensors"), 1000000)), _member(root, "sanity", "checked") is True
    checks.append(Check("unknown" if not is_looked_at else "in part" if odd else "good", "values of the output",
                        counted(odd, "suspicious tensor") if is_looked_at else "not looked at"))
    base = _member(root, "base")
    if isinstance(base, dict):
        checks.append(Check("good", "beside the base", f"{_line(_member(base, 'equal'))} of {_line(_member(base, 'compared'))} tensors are equal"))
    return checks


def record_of(root: Any) -> Record:
    """What a report says, as far as it is shown."""
    ending = _member(root, "exit")
    record = Record(title=_shown(_member(root, "command")), code=_integer(_member(ending, "code")), ending=_shown(_member(ending, "name")))
    record.tool = f"shardweld {_shown(_member(root, 'tool', 'version'))} ({_shown(_member(root, 'tool', 'git'))})"
    published = _member(root, "published")  # reports before 0.3 do not say
    record.is_published = (published if isinstance(published, bool) else record.code == 0) or record.title != "merge"
    hint = _shown(_member(ending, "hint"))
    record.message = (_shown(_member(ending, "message")) + "".join(f"\nwhere: {_shown(one)}" for one in _elements(_member(ending, "where"), _MOST_LINES)) +
                      (f"\nhint: {hint}" if hint else ""))
    environment = _member(root, "environment")
    record.started, record.n_ranks = _minute(_member(environment, "started")), _bytes(_member(environment, "ranks"))
    record.command, record.command_note = _command(environment, record.n_ranks)
    record.model, record.target, record.format = (_shown(value) for value in (_member(root, "model_class"), _member(root, "target"),
                                                                             _member(root, "input", "format")))
    mixed = [_shown(_member(one, "dir")) for one in _elements(_member(root, "mixed"), _MOST_LINES)]
    record.input = f"{counted(len(mixed), 'checkpoint')}: {', '.join(mixed)}" if mixed else _shown(_member(root, "input", "dir"))
    record.phases = _phases(_member(root, "phases"))
    record.ranks = [_rank(one) for one in _elements(_member(root, "ranks"), _MOST_ROWS)]
    record.ledger, record.stored = _ledger(_member(root, "ledger"), record.is_published), _bytes(_member(root, "ledger", "stored"))
    record.facts = _facts(root)
    record.files = [(_shown(_member(one, "name")), _bytes(_member(one, "bytes"))) for one in _elements(_member(root, "files"), _MOST_ROWS)]
    tensors = _member(root, "tensors") if isinstance(_member(root, "tensors"), list) else []
    sizes = [_bytes(_member(tensor, "bytes")) for tensor in tensors]
    record.n_tensors, record.tensor_bytes = len(sizes), min(sum(sizes), _MOST_BYTES)
    largest = sorted(range(len(sizes)), key=lambda at: -sizes[at])[:_LARGEST_SHOWN]
    record.largest = [(_shown(_member(tensors[at], "name")), sizes[at]) for at in largest]
    record.checks = _checks(root, record)
    for warning in _elements(_member(root, "warnings"), _MOST_LINES):
        tensor = _shown(_member(warning, "tensor"))
        record.warnings.append((_shown(_member(warning, "code")), (f"{tensor}: " if tensor else "") + _shown(_member(warning, "text"))))
    return record


def read_report(path: str) -> Record:
    """Failed(CORRUPT) where it is no report of a run, Failed(UNSUPPORTED) for another schema."""
    def without_large(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        return {name: value for name, value in pairs if name not in ("sources", "xxh3_128")}  # most of a large report, and not shown

    text = read_bytes(path, _LARGEST_REPORT)
    try:
        root = json.loads(text.decode("utf-8"), object_pairs_hook=without_large, parse_constant=lambda _: None,
                          parse_int=lambda digits: int(digits) if len(digits) <= 20 else float(digits))
    except (ValueError, RecursionError):
        root = None
    why = ""
    if not isinstance(root, dict):
        why = "it is no JSON object"
    elif not isinstance(root.get("ledger"), dict) or not isinstance(root.get("phases"), list):
        why = "it has no ledger and no phases"
    if why:
        raise Failed(CORRUPT, f"{path} is no report of a run: {why}", "give one that --report has written")
    if root.get("schema") != 1:
        raise Failed(UNSUPPORTED, f"{path} is a report of schema {printable(json.dumps(root.get('schema'), ensure_ascii=False))}, this version reads schema 1",
                     "show it with the version that wrote it")
    return record_of(root)


# The text.

def _head_text(record: Record) -> str:
    size = f"{counted(record.n_tensors, 'tensor')} in {counted(len(record.files), 'file')}, {human_bytes(record.tensor_bytes)}"
    told = [(printable(record.title), record.input), ("format", record.format), ("model", record.model), ("target", record.target), ("started", record.started),
            ("ended", f"with code {record.code} ({record.ending})" if record.code else "well")]
    told += [("", line) for line in record.message.split("\n")]
    told += [("output", size if record.is_published else "nothing was published" + (f" (planned: {size})" if record.n_tensors else "")),
             ("took", f"{duration(record.phases.seconds())} with {counted(record.n_ranks, 'rank')}")]
    told += record.facts + [("written by", record.tool)]
    return table("<<", [(name, printable(value, _LONGEST_LINE)) for name, value in told if value])


def _ledger_text(record: Record) -> str:
    """The largest first; many small ones are one row."""
    if record.stored == 0:
        return ""
    rows = record.ledger[:1] + sorted(record.ledger[1:], key=lambda row: -row.bytes)
    cells = [("  " + ("ignored " if row.fate == "ignored" else "") + printable(row.name), human_bytes(row.bytes), percent(row.bytes, record.stored),
              bar(row.bytes, record.stored), printable(row.reason)) for row in rows[:_SHOWN_LOSSES]]
    rest = f"  and {len(rows) - _SHOWN_LOSSES} smaller ones\n" if len(rows) > _SHOWN_LOSSES else ""
    return f"\nwhere {human_bytes(record.stored)} {'went' if record.is_published else 'would have gone'}\n{table('<>><<', cells)}{rest}"


def _phases_text(record: Record) -> str:
    def spread(name: str) -> str:
        times = [rank.phases.seconds(name) for rank in record.ranks]
        return f"{duration(min(times))} to {duration(max(times))}" if len(times) > 1 and max(times) > 0 else ""

    cells = [("  " + printable(name), duration(seconds), bar(seconds, record.phases.seconds()), spread(name)) for name, seconds in record.phases.each]
    return "\n" + table("<><<", [("phase", "first rank", "", "ranks")] + cells) if cells else ""


def _ranks_text(record: Record) -> str:
    most = max((max(rank.read, rank.sent, rank.written) for rank in record.ranks), default=0)
    cells = [(str(rank.rank), printable(rank.host), human_bytes(rank.read), human_bytes(rank.sent), human_bytes(rank.written), human_bytes(rank.peak),
              bar(rank.written, most)) for rank in record.shown_ranks(_SHOWN_RANKS)]
    return "\n" + table("><>>>><", [("rank", "host", "read", "sent", "written", "memory", "")] + cells) if cells else ""


def _checks_text(record: Record) -> str:
    text = "\nchecks\n"
    for check in record.checks:
        text += f"  {check.state:<9}" + wrapped(f"{check.name}: {printable(check.text, _LONGEST_LINE)}", 11, _PAGE_WIDTH)
    text += f"\n{counted(len(record.warnings), 'warning')}\n" if record.warnings else "\nno warnings\n"
    return text + "".join("  " + wrapped(f"{printable(code)}: {printable(what, _LONGEST_LINE)}", 4, _PAGE_WIDTH) for code, what in record.warnings)


def report_text(record: Record) -> str:
    text = _head_text(record) + _ledger_text(record) + _phases_text(record) + _ranks_text(record) + _checks_text(record)
    text += f"\ncommand\n  {printable(record.command, 4 * _LONGEST_LINE)}\n" if record.command else ""
    return text + (f"  {printable(record.command_note, 4 * _LONGEST_LINE)}\n" if record.command_note else "")


def run(given: Given) -> int:
    path = given.get("local_dir")
    if not path:
        raise Failed(USAGE, "no file is given", f"usage: {COMMAND.usage}")
    record = read_report(os.path.join(path, KEPT_REPORT) if os.path.isdir(path) else path)
    if "html" not in given:
        print(report_text(record), end="")
        return 0
    from .report_page import is_page, page_of
    write_file(given.get("html"), page_of(record), is_page)
    print(f"wrote {given.get('html')}")
    return 0


COMMAND = Command("report", run)

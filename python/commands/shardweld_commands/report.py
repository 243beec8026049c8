"""`shardweld report`: what the report of a run says, for a terminal or as a page. The file is of unknown origin: what is not there, or is something
else than it should be, counts as not said, and everything is made safe before it is shown."""
import itertools
import json
import math
import os
import re
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .command import CORRUPT, UNSUPPORTED, Command, Failed, Given, on_terminal, show
from .files import is_number, is_whole, list_of, read_bytes, text_of, write_file
from .redact import without_secrets
from .text import bar, counted, duration, human_bytes, percent, printable, range_text, table, wrapped

KEPT_REPORT = "shardweld_report.json"
_LARGEST_REPORT = 1 << 30
_LONGEST_TEXT, _LONGEST_LINE, _PAGE_WIDTH = 4000, 1000, 96
_MOST_ROWS, _MOST_LINES, _MOST_PHASES, _MOST_LISTED, _LARGEST_SHOWN = 4096, 200, 64, 200, 12
_SHOWN_RANKS, _SHOWN_LOSSES = 32, 20
_YEAR = 366 * 86400.0
_MOST_BYTES = (1 << 64) - 1

Sizes = List[Tuple[str, int]]
Phases = List[Tuple[str, float]]  # names and seconds, in their order


class Told:
    """A value of a report, taken as what it should be: what it is not, or what is not there, is "", 0 or nothing. Names lead to a value inside of it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def at(self, *names: str) -> "Told":
        value = self.value
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return Told(value)

    def each(self, name: str, most: int) -> List["Told"]:
        return [Told(one) for one in list_of(self.at(name).value)[:most]]

    def is_object(self) -> bool:
        return isinstance(self.value, dict)

    def text(self, *names: str) -> str:
        """Text, number or truth value without secrets, which older versions wrote down."""
        value = self.at(*names).value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)):
            return str(value) if math.isfinite(value) else ""
        long = text_of(value)[:2 * _LONGEST_TEXT]
        whole = long if long == value else long.rpartition(" ")[0]  # a secret that was cut in two is not known for one
        text = without_secrets(whole)
        return text if text_of(value) == whole and len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + " ..."

    def line(self, *names: str) -> str:
        """A value of any kind on one line: "tp 2, pp 4"."""
        value = self.at(*names).value
        if not isinstance(value, (dict, list)):
            return self.text(*names)
        items = [(f"{name} ", value[name]) for name in sorted(value)] if isinstance(value, dict) else [("", one) for one in value]
        texts = [name + ("..." if isinstance(one, (dict, list)) else Told(one).text()) for name, one in items[:_MOST_LISTED]]
        return ", ".join(texts + ["..."] * (len(items) > _MOST_LISTED))

    def integer(self, *names: str, end: int = 1 << 63) -> int:
        value = self.at(*names).value
        return int(value) if is_whole(value) and abs(value) < end else 0

    def bytes(self, *names: str) -> int:
        return max(self.integer(*names, end=1 << 64), 0)

    def seconds(self, name: str) -> float:
        value = self.at(name).value
        return min(max(float(value), 0.0), _YEAR) if is_number(value) and math.isfinite(value) else 0.0

    def phases(self) -> Phases:
        return [(phase.text("name"), phase.seconds("wall_s")) for phase in self.each("phases", _MOST_PHASES)]


def time_of(phases: Phases, name: Optional[str] = None) -> float:
    """Of all phases, or of those of this name."""
    return sum(seconds for one, seconds in phases if name is None or one == name)


class Rank(NamedTuple):
    rank: int
    host: str
    phases: Phases
    peak: int
    read: int
    sent: int
    written: int


class Row(NamedTuple):
    """Where bytes of the ledger went."""
    fate: str  # written, replica, padding, ignored
    name: str
    reason: str
    bytes: int


class Check(NamedTuple):
    """Whether something about the run is as it should be."""
    state: str  # good, in part, bad, unknown
    name: str
    text: str


class Record:
    """What a run found and did, as its report says."""

    def __init__(self, value: Any) -> None:
        root = Told(value)
        ending, environment = root.at("exit"), root.at("environment")
        self.title, self.code, self.ending = root.text("command"), ending.integer("code"), ending.text("name")
        self.tool = f"shardweld {root.text('tool', 'version')} ({root.text('tool', 'git')})"
        published = root.at("published").value  # reports before 0.3 do not say
        self.is_published: bool = (published if isinstance(published, bool) else self.code == 0) or self.title != "merge"
        lines = [ending.text("message"), *(f"where: {one.text()}" for one in ending.each("where", _MOST_LINES)), f"hint: {ending.text('hint')}"]
        self.message = "\n".join(lines if ending.text("hint") else lines[:-1])
        time = re.fullmatch(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}):[0-9]{2}Z", environment.text("started"))
        self.n_ranks, self.started = environment.bytes("ranks"), f"{time[1]} {time[2]} UTC" if time else ""
        self.command, self.command_note = _command(environment, self.n_ranks)
        self.model, self.target, self.format = root.text("model_class"), root.text("target"), root.text("input", "format")
        mixed = [one.text("dir") for one in root.each("mixed", _MOST_LINES)]
        self.input = f"{counted(len(mixed), 'checkpoint')}: {', '.join(mixed)}" if mixed else root.text("input", "dir")
        self.phases = root.phases()
        sizes = ("peak_bytes", "bytes_read", "bytes_sent", "bytes_written")
        self.ranks = [Rank(one.integer("rank"), one.text("host"), one.phases(), *(one.bytes(size) for size in sizes))
                      for one in root.each("ranks", _MOST_ROWS)]
        self.seconds = max(map(time_of, [self.phases, *(rank.phases for rank in self.ranks)]))
        self.ledger, self.stored = _ledger(root.at("ledger"), self.is_published), root.bytes("ledger", "stored")
        self.facts = _facts(root)
        self.files: Sizes = [(one.text("name"), one.bytes("bytes")) for one in root.each("files", _MOST_ROWS)]
        tensors = list(map(Told, list_of(root.at("tensors").value)))
        self.n_tensors, self.tensor_bytes = len(tensors), min(sum(one.bytes("bytes") for one in tensors), _MOST_BYTES)
        self.largest: Sizes = [(one.text("name"), one.bytes("bytes")) for one in sorted(tensors, key=lambda one: -one.bytes("bytes"))[:_LARGEST_SHOWN]]
        self.checks = self._checks(root)
        self.warnings = [(one.text("code"), "".join(f"{tensor}: " for tensor in [one.text("tensor")] if tensor) + one.text("text"))
                         for one in root.each("warnings", _MOST_LINES)]

    def headline(self) -> str:
        """"Qwen3ForCausalLM in merged": the model and where it is, or what else is known."""
        name = os.path.basename(self.target.rstrip("/"))
        return (self.model or self.title) + (f" {'in' if self.model else 'into'} {name}" if name else "")

    def shown_ranks(self, most: int) -> List[Rank]:
        """The ranks worth a line each, where there are too many for all: evenly chosen, with the one that took longest."""
        slowest = max(self.ranks, key=lambda rank: time_of(rank.phases), default=None)
        step = max(1, -(-len(self.ranks) // most))
        return [rank for at, rank in enumerate(self.ranks) if at % step == 0 or rank is slowest]

    def seconds_of(self, phase: str) -> Tuple[float, float]:
        """Of the fastest and of the slowest rank."""
        times = [time_of(phases, phase) for phases in [rank.phases for rank in self.ranks] or [self.phases]]
        return min(times), max(times)

    def _checks(self, root: Told) -> List[Check]:
        standing, evidence = root.text("provenance", "standing"), root.line("provenance", "evidence")
        crc, base = root.at("crc"), root.at("base")
        records, unchecked, without = (crc.bytes(name) for name in ("records", "unchecked_records", "without"))
        right = f"{records} records ({human_bytes(crc.bytes('bytes'))}) are as they state" + (f", {unchecked} were read only in part" if unchecked else "")
        right = (right + f", {without} state none" if records else f"{without} records state none") if without else right
        accounted = min(sum(row.bytes for row in self.ledger), _MOST_BYTES)
        odd, is_looked_at = len(root.at("sanity").each("tensors", 1000000)), root.at("sanity", "checked").value is True
        sums = ("unknown", "nothing was read") if self.stored == 0 else ("good", f"{human_bytes(self.stored)} in all") if accounted == self.stored else (
            "bad", f"{human_bytes(accounted)} of {human_bytes(self.stored)}")
        crcs = ("in part" if unchecked else "unknown" if without and not records else "good", right) if crc.is_object() else ("unknown", "not looked at")
        checks = [
            Check("bad" if self.code else "good", "the run", f"ended with code {self.code}" if self.code else "succeeded"),
            Check({"proved": "good", "consistent": "good"}.get(standing, "unknown"), "every file in its place, of one save",
                  "not looked at" if not evidence and standing == "unknown" else f"{standing}: {evidence}"),
            Check(crcs[0], "checksums of the input", crcs[1]), Check(sums[0], "every stored byte accounted for", sums[1]),
            Check("unknown" if not is_looked_at else "in part" if odd else "good", "values of the output",
                  counted(odd, "suspicious tensor") if is_looked_at else "not looked at")]
        equal = f"{base.line('equal')} of {base.line('compared')} tensors are equal"
        return checks + ([Check("good", "beside the base", equal)] if base.is_object() else [])


def _ledger(ledger: Told, is_there: bool) -> List[Row]:
    # Several checkpoints have rows of their own for what is left aside in each: equal ones are one.
    ignored: Dict[Tuple[str, str], int] = {}
    for told in ledger.each("ignored", _MOST_ROWS):
        key = told.text("pattern"), told.text("reason")
        ignored[key] = ignored.get(key, 0) + told.bytes("bytes")
    return [Row("written", "written" if is_there else "planned", "in the model, each element once" if is_there else "but not published",
                ledger.bytes("consumed")),
            Row("replica", "replicas", "held again by other files", ledger.bytes("replica")),
            Row("padding", "padding", "rows that only fill the vocabulary up", ledger.bytes("padding")),
            *(Row("ignored", *key, bytes=n_bytes) for key, n_bytes in ignored.items())]


def _facts(root: Told) -> List[Tuple[str, str]]:
    parallel, resume, environment = root.at("input", "facts"), root.at("resume"), root.at("environment")
    if parallel.is_object():
        parallel = Told({name: value for name, value in parallel.value.items() if name not in ("t", "te")})  # as recipes compute with them
    why = root.text("plan", "why")
    facts = [("parallel sizes", parallel.line()),
             ("taken up", f"{human_bytes(resume.bytes('bytes_reused'))} that an earlier merge had written" if resume.is_object() else ""),
             ("strategy", root.text("plan", "strategy") + (f": {why}" if why else "")),
             ("plan", root.text("plan", "hash")), ("hash of all tensors", root.text("root"))]
    for name in sorted(environment.value) if environment.is_object() else []:
        if name not in ("command_line", "launcher", "launcher_unseen", "started"):
            facts.append((printable(name), environment.line(name)))
        if name == "hosts":  # with their numbers of ranks: "node1 x 8, node2 x 8"
            runs = [(host, len(list(run))) for host, run in itertools.groupby(host.text() for host in environment.each(name, _MOST_ROWS))]
            facts[-1] = (name, ", ".join(host + (f" x {count}" if count > 1 else "") for host, count in runs))
    return [fact for fact in facts if fact[1]]


def _command(environment: Told, n_ranks: int) -> Tuple[str, str]:
    """The command with its launcher, and what is not known of that."""
    own, launcher = environment.text("command_line"), environment.text("launcher")
    is_whole = own != "" and launcher.endswith(own[own.find(" ") + 1:])  # launchers may write the program with its directory
    if launcher and not is_whole:
        return own, f"started by {launcher}"
    if not launcher and n_ranks > 1:
        return own, environment.text("launcher_unseen") or "how the ranks were started is not known"
    return launcher if is_whole else own, ""


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
    if not isinstance(root, dict) or not isinstance(root.get("ledger"), dict) or not isinstance(root.get("phases"), list):
        why = "it has no ledger and no phases" if isinstance(root, dict) else "it is no JSON object"
        raise Failed(CORRUPT, f"{path} is no report of a run: {why}", "give one that --report has written")
    if root.get("schema") != 1:
        raise Failed(UNSUPPORTED, f"{path} is a report of schema {printable(json.dumps(root.get('schema'), ensure_ascii=False))}, this version reads schema 1",
                     "show it with the version that wrote it")
    return Record(root)


# The text.

def _head_text(record: Record) -> str:
    size = f"{counted(record.n_tensors, 'tensor')} in {counted(len(record.files), 'file')}, {human_bytes(record.tensor_bytes)}"
    told = [(printable(record.title), record.input), ("format", record.format), ("model", record.model), ("target", record.target), ("started", record.started),
            ("ended", f"with code {record.code} ({record.ending})" if record.code else "well")]
    told += [("", line) for line in record.message.split("\n")]
    told += [("output", size if record.is_published else "nothing was published" + (f" (planned: {size})" if record.n_tensors else "")),
             ("took", f"{duration(record.seconds)} with {counted(record.n_ranks, 'rank')}")]
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
    cells = [("  " + printable(name), range_text(*record.seconds_of(name)), bar(record.seconds_of(name)[1], record.seconds))
             for name in dict.fromkeys(name for name, _ in record.phases)]
    return "\n" + table("<><", [("phase", "time of a rank", "")] + cells) if cells else ""


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
    record = read_report(os.path.join(path, KEPT_REPORT) if os.path.isdir(path) else path)
    if "html" in given:
        from .report_page import is_page, page_of
        write_file(given.get("html"), page_of(record), is_page)
    text = f"wrote {given.get('html')}\n" if "html" in given else report_text(record)
    show(given, text if "json" in given or "html" in given else on_terminal(text, sys.stdout), ok=record.code == 0)
    return 0


COMMAND = Command("report", run)

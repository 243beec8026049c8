"""A report as one page of HTML that needs nothing else: no script, no network. Its template is report_page.html; everything that came from the report is
escaped."""
import html
import re
from pathlib import Path
from typing import Any, Dict, List

from .report import Phases, Record, Row, Sizes
from .text import UNSEEN, counted, duration, human_bytes, percent, range_text, share

_HEIGHT, _LEAST_ROW, _LEAST_BAND, _MOST_BANDS = 260, 66, 1.5, 8  # of the bar that all bytes are; three lines of text
_DRAWN_RANKS, _LISTED_FILES, _COLOURS = 48, 100, 10
_ROOM_FOR_NAME = 0.09
_SIGNS = {"good": ("good", "\u2713"), "in part": ("doubt", "~"), "bad": ("bad", "\u2717"), "unknown": ("unknown", "?")}
_PLACE = re.compile(r"\{\{([#^])(\w+)\}\}(.*?)\{\{/\2\}\}|\{\{(&?)(\w+)\}\}", re.DOTALL)

Values = Dict[str, Any]


def escaped(text: str) -> str:
    """As text or as an attribute's value; controls, and what turns the direction of writing, become a replacement sign."""
    shown = "\n".join(UNSEEN.sub("\ufffd", line) for line in text.split("\n"))
    return html.escape(shown).replace("&#x27;", "&#39;")


def filled(template: str, values: Values) -> str:
    """A template of mustache's kind: {{name}} is escaped, {{&name}} HTML already; {{#name}}...{{/name}} is there for each of a list, and once for anything
    else that is not empty; {{^name}} where it is. What no row of a list has is the whole's."""
    def put(found: "re.Match[str]") -> str:
        sort, name, inner = found[1] or found[4], found[2] or found[5], found[3]
        value = values.get(name, "")
        if inner is None:
            return str(value) if sort else escaped(str(value))
        if sort == "^":
            return "" if value else filled(inner, values)
        rows = value if isinstance(value, list) else [value if isinstance(value, dict) else {}] if value else []
        return "".join(filled(inner, {**values, **row}) for row in rows)

    return _PLACE.sub(put, template)


def _text_of(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _width(part: float, whole: float) -> str:
    return f"width:{100 * share(part, whole):.3f}%"


def _flow(record: Record) -> Values:
    """Bands as wide as their bytes, the largest first and the smallest together, from the bar's stretch on the left to rows that have room for text."""
    rows = sorted((row for row in record.ledger if row.bytes > 0), key=lambda row: -row.bytes)
    if len(rows) > _MOST_BANDS:
        rest = rows[_MOST_BANDS - 1:]
        rows[_MOST_BANDS - 1:] = [Row("ignored", counted(len(rest), "other kind"), "", sum(row.bytes for row in rest))]
    whole = sum(row.bytes for row in rows)
    thick = [max(_LEAST_BAND, _HEIGHT * row.bytes / whole) for row in rows]
    heights = [max(_LEAST_ROW, one + 6) for one in thick]
    start, top, bands = (sum(heights) - sum(thick)) / 2, 0.0, []
    for row, one, height in zip(rows, thick, heights):
        end = top + (height - one) / 2
        places = {"start": start, "start_below": start + one, "end": end, "end_below": end + one, "thick": one, "row": height}
        bands.append({"fate": row.fate, "name": row.name, "reason": row.reason, "bytes": human_bytes(row.bytes), "share": percent(row.bytes, record.stored),
                      **{name: f"{place:.2f}" for name, place in places.items()}})
        start, top = start + one, top + height
    return {"stored": human_bytes(record.stored), "height": f"{sum(heights):.2f}", "bands": bands} if bands else {}


def _chosen(record: Record, shown: int) -> str:
    return "" if shown == len(record.ranks) else f"{shown} of {len(record.ranks)} ranks, evenly chosen, with the slowest"


def _times(record: Record) -> Values:
    """A lane of phases for each rank; those of one name have one colour, in the order in which they are met."""
    colours: Dict[str, int] = {}
    ranks = [rank for rank in record.shown_ranks(_DRAWN_RANKS) if rank.phases]

    def rows(phases: Phases) -> List[Values]:
        return [{"phase": phase, "time": duration(seconds), "width": _width(seconds, record.seconds), "colour": colours.setdefault(phase, len(colours)) % _COLOURS,
                 "label": phase if seconds > _ROOM_FOR_NAME * record.seconds else ""} for phase, seconds in phases]

    legend = [{**row, "time": range_text(*record.seconds_of(row["phase"]))} for row in {row["phase"]: row for row in rows(record.phases)}.values()]
    return {"legend": legend, "axis": [{"time": duration(record.seconds * at / 4) if at else "0"} for at in range(5)],
            "lanes": [{"name": f"rank {rank.rank}", "host": rank.host, "parts": rows(rank.phases)} for rank in ranks] or
            [{"name": "first rank", "parts": rows(record.phases)}], "chosen_lanes": _chosen(record, len(ranks)) if ranks else ""}


def _did(record: Record) -> Values:
    most, peak = max(max(rank.read, rank.sent, rank.written) for rank in record.ranks), max(rank.peak for rank in record.ranks)
    ranks = record.shown_ranks(_DRAWN_RANKS)
    return {"chosen": _chosen(record, len(ranks)), "rows": [{"rank": rank.rank, "host": rank.host, "bars": [
        {"bytes": human_bytes(part), "width": _width(part, whole), "colour": colour} for part, whole, colour in
        ((rank.read, most, "--p1"), (rank.sent, most, "--p2"), (rank.written, most, "--p0"), (rank.peak, peak, "--p3"))]} for rank in ranks]}


def _tiles(record: Record) -> List[Values]:
    seconds, peak = record.seconds, max((rank.peak for rank in record.ranks), default=0)
    tiles = [(human_bytes(record.tensor_bytes), "of tensors"), (str(record.n_tensors), "tensors"), (duration(seconds), "in all"),
             (human_bytes(int(min(record.tensor_bytes / seconds, 1e30)) if seconds > 0 else 0) + "/s", "of output"),
             (str(record.n_ranks), "rank" if record.n_ranks == 1 else "ranks")]
    tiles += [(human_bytes(peak), "memory of a rank, at most")] if peak else []
    tiles += [(str(len(record.warnings)), "warning" if len(record.warnings) == 1 else "warnings")]
    return [{"value": value, "name": name} for value, name in tiles]


def _sizes(heading: str, entries: Sizes, colour: str) -> Values:
    most = max((size for _, size in entries), default=0)
    return {"heading": heading, "colour": colour, "more": max(len(entries) - _LISTED_FILES, 0),
            "rows": [{"name": name, "width": _width(size, most), "bytes": human_bytes(size)} for name, size in entries[:_LISTED_FILES]]}


def page_of(record: Record) -> str:
    def signed(state: str, **texts: str) -> Values:
        return {"style": _SIGNS[state][0], "sign": _SIGNS[state][1], "code": "", "name": "", **texts}

    day = record.started.partition(" ")[0]
    checks = [signed(check.state, name=check.name, text=check.text) for check in record.checks]
    warnings = [signed("in part", code=code, text=text) for code, text in record.warnings]
    places = [("from", record.input, record.format), ("to", record.target, "")]
    return filled(_text_of("report_page.html"), {
        **_times(record), "style": _text_of("report_page.css"), "headline": record.headline(), "code": record.code, "ending": record.ending,
        # For a list of tabs: the model, its directory and the day first.
        "title": record.headline() + (", failed" if record.code else "") + (f", {day}" if day else "") + f" - shardweld {record.title}",
        "command_name": record.title, "started": record.started, "message": record.message, "n_tensors": record.n_tensors, "tiles": _tiles(record),
        "places": [{"way": way, "path": path, "form": form} for way, path, form in places if path], "flow": _flow(record),
        "did": _did(record) if record.ranks else {}, "command": record.command, "command_note": record.command_note,
        "lists": [{"heading": heading, "items": items, "any": bool(items)} for heading, items in (("Checks", checks), ("Warnings", warnings))],
        "sizes": {"tables": [_sizes("Files", record.files, "--p0"), _sizes("Largest tensors", record.largest, "--p3")]} if record.files else {},
        "facts": [{"name": name, "value": value} for name, value in record.facts], "tool": record.tool})


def is_page(head: bytes) -> bool:
    """Whether a file that begins so is a page of a report."""
    return head.startswith(_text_of("report_page.html").partition("{{")[0].encode())

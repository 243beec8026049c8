"""A report as one page of HTML that needs nothing else: no script, no network. Everything that came from the report is escaped."""
import html
import os
import re
from typing import Dict, List, Sequence, Tuple

from .report import Phases, Rank, Record, Row, Sizes
from .text import UNSEEN, counted, duration, human_bytes, percent

_HEIGHT, _LEAST_ROW, _LEAST_BAND, _MOST_BANDS = 260, 66, 1.5, 8  # of the bar that all bytes are; three lines of text
_DRAWN_RANKS, _LISTED_FILES, _COLOURS = 48, 100, 10
_ROOM_FOR_NAME = 0.09


def escaped(text: str) -> str:
    """As text or as an attribute's value; controls, and what turns the direction of writing, become a replacement sign."""
    shown = "\n".join(UNSEEN.sub("\ufffd", line) for line in text.split("\n"))
    return html.escape(shown).replace("&#x27;", "&#39;")


def element(name: str, attributes: str, content: str) -> str:
    """Content is HTML already, attributes are as they stand."""
    return f"<{name}{' ' if attributes else ''}{attributes}>{content}</{name}>"


def _small(content: str) -> str:
    return element("small", "", content)


def _card(title: str, content: str) -> str:
    return element("section", 'class="card"', element("h2", "", title) + content)


def _width(part: float, whole: float) -> str:
    return f"width:{min(max(100 * part / whole, 0.0), 100.0) if whole > 0 else 0.0:.3f}%"


# Where the bytes went.

def _flow_rows(record: Record) -> List[Row]:
    """Those that have bytes, the largest first; the smallest together."""
    rows = sorted((row for row in record.ledger if row.bytes > 0), key=lambda row: -row.bytes)
    if len(rows) > _MOST_BANDS:
        rest = rows[_MOST_BANDS - 1:]
        rows[_MOST_BANDS - 1:] = [Row("ignored", counted(len(rest), "other kind"), "", sum(row.bytes for row in rest))]
    return rows


def _band(style: str, thick: float, start: float, end: float) -> str:
    """From the bar's stretch at `start` to the row's at `end`."""
    return (f'<path class="band {style}" d="M5 {start:.2f}C50 {start:.2f} 50 {end:.2f} 97 {end:.2f}V{end + thick:.2f}C50 {end + thick:.2f} 50 '
            f'{start + thick:.2f} 5 {start + thick:.2f}Z"/><rect class="{style}" x="0" y="{start:.2f}" width="5" height="{thick:.2f}"/>'
            f'<rect class="{style}" x="97" y="{end:.2f}" width="3" height="{thick:.2f}"/>')


def _flow(record: Record) -> str:
    """Bands as wide as their bytes, and beside them what they are."""
    rows = _flow_rows(record)
    if not rows:
        return "<p>Nothing was read.</p>"
    whole = sum(row.bytes for row in rows)
    bands = [max(_LEAST_BAND, _HEIGHT * row.bytes / whole) for row in rows]
    heights = [max(_LEAST_ROW, band + 6) for band in bands]
    start, end, drawn, labels = (sum(heights) - sum(bands)) / 2, 0.0, "", ""
    for row, band, height in zip(rows, bands, heights):
        drawn += _band(row.fate, band, start, end + (height - band) / 2)
        name, reason = escaped(row.name), escaped(row.reason)
        labels += element("li", f'style="height:{height:.2f}px"', element("span", f'class="what" title="{name}"', name) + element(
            "span", 'class="much"', f"{human_bytes(row.bytes)} &middot; {percent(row.bytes, record.stored)}") + element("small", f'title="{reason}"', reason))
        start, end = start + band, end + height
    frame = f'viewBox="0 0 100 {sum(heights):.2f}" style="height:{sum(heights):.2f}px" preserveAspectRatio="none" aria-hidden="true"'
    stored = element("b", "", human_bytes(record.stored)) + " " + _small("stored")
    return element("div", 'class="flow"', element("p", "", stored) + element("svg", frame, drawn) + element("ul", "", labels))


# Time.

def _colour(phase: str, numbers: Dict[str, int]) -> str:
    """Phases of one name have one colour, in the order in which they are met."""
    return f"--c:var(--p{numbers.setdefault(phase, len(numbers)) % _COLOURS})"


def _lane(name: str, phases: Phases, longest: float, colours: Dict[str, int]) -> str:
    parts = "".join(element("i", f'style="{_width(seconds, longest)};{_colour(phase, colours)}" title="{escaped(phase)}: {duration(seconds)}"',
                            escaped(phase) if seconds > _ROOM_FOR_NAME * longest else "") for phase, seconds in phases.each)
    return element("span", 'class="name"', name) + element("div", 'class="lane"', parts)


def _chosen_note(record: Record, shown: int) -> str:
    return "" if shown == len(record.ranks) else element("p", "", _small(f"{shown} of {len(record.ranks)} ranks, evenly chosen, with the slowest"))


def _rank_name(rank: Rank) -> str:
    return f"rank {rank.rank}" + element("span", 'class="host"', f" &middot; {escaped(rank.host)}")


def _time_line(record: Record) -> str:
    colours: Dict[str, int] = {}
    ranks = [rank for rank in record.shown_ranks(_DRAWN_RANKS) if rank.phases.each]
    longest = max([record.phases.seconds()] + [rank.phases.seconds() for rank in ranks])
    legend = "".join(element("li", "", f'<i style="{_colour(phase, colours)}"></i>{escaped(phase)} ' + element("span", "", duration(seconds)))
                     for phase, seconds in record.phases.each)
    lanes = "".join(_lane(_rank_name(rank), rank.phases, longest, colours) for rank in ranks) or _lane("first rank", record.phases, longest, colours)
    marks = "".join(element("span", "", duration(longest * at / 4) if at else "0") for at in range(5))
    return (element("div", 'class="lines"', lanes + "<span></span>" + element("div", 'class="axis"', marks)) + element("ul", 'class="legend"', legend) +
            (_chosen_note(record, len(ranks)) if ranks else ""))


# Tables and lists.

def _meter(part: int, whole: int, colour: str) -> str:
    return element("div", 'class="meter"', f'<i style="{_width(part, whole)};--c:var({colour})"></i>')


def _ranks_table(record: Record) -> str:
    most = max(max(rank.read, rank.sent, rank.written) for rank in record.ranks)
    peak, ranks = max(rank.peak for rank in record.ranks), record.shown_ranks(_DRAWN_RANKS)
    rows = "<tr><th>Rank<th>Read<th>Sent to others<th>Written<th>Memory, at most</tr>"
    for rank in ranks:
        amounts = ((rank.read, most, "--p1"), (rank.sent, most, "--p2"), (rank.written, most, "--p0"), (rank.peak, peak, "--p3"))
        rows += element("tr", "", element("td", "", _rank_name(rank)) + "".join(
            element("td", 'class="bar"', human_bytes(part) + _meter(part, whole, colour)) for part, whole, colour in amounts))
    return element("div", 'class="scroll"', element("table", "", rows)) + _chosen_note(record, len(ranks))


_SIGNS = {"good": ("good", "&#10003;"), "in part": ("doubt", "~"), "bad": ("bad", "&#10007;"), "unknown": ("unknown", "?")}


def _signed_list(items: Sequence[Tuple[str, str, str]]) -> str:
    """States, and two texts that are HTML already."""
    rows = ""
    for state, name, text in items:
        style, sign = _SIGNS[state]
        rows += element("li", "", element("span", f'class="sign {style}"', sign) + element("span", "", name + _small(text)))
    return element("ul", 'class="checks"', rows)


def _sizes_table(entries: Sizes, colour: str) -> str:
    most = max((size for _, size in entries), default=0)
    rows = "".join(element("tr", "", element("td", "", element("code", "", escaped(name)) + _meter(size, most, colour)) +
                           element("td", 'class="n"', human_bytes(size))) for name, size in entries[:_LISTED_FILES])
    if len(entries) > _LISTED_FILES:
        rows += f"<tr><td>and {len(entries) - _LISTED_FILES} more<td></tr>"
    return element("div", 'class="scroll"', element("table", "", rows))


# The whole.

def _header(record: Record) -> str:
    def place(way: str, path: str, form: str) -> str:
        return element("p", 'class="path"', f"{way} {escaped(path)}" + (f" &middot; {escaped(form)}" if form else "")) if path else ""

    badge = (element("span", 'class="badge bad"', f"code {record.code}: {escaped(record.ending)}") if record.code else
             element("span", 'class="badge good"', "ended well"))
    when = f"shardweld {escaped(record.title)}" + (f", {escaped(record.started)}" if record.started else "")
    return element("header", "", element("h1", "", escaped(record.headline()) + badge) + element("p", 'class="when"', when) +
                   place("from", record.input, record.format) + place("to", record.target, "")) + (
                       element("div", 'class="card error"', escaped(record.message)) if record.message else "")


def _tiles(record: Record) -> str:
    seconds, peak = record.phases.seconds(), max((rank.peak for rank in record.ranks), default=0)
    tiles = [(human_bytes(record.tensor_bytes), "of tensors"), (str(record.n_tensors), "tensors"), (duration(seconds), "in all"),
             (human_bytes(int(min(record.tensor_bytes / seconds, 1e30)) if seconds > 0 else 0) + "/s", "of output"),
             (str(record.n_ranks), "rank" if record.n_ranks == 1 else "ranks")]
    tiles += [(human_bytes(peak), "memory of a rank, at most")] if peak else []
    tiles += [(str(len(record.warnings)), "warning" if len(record.warnings) == 1 else "warnings")]
    return element("div", 'class="tiles"', "".join(
        element("div", 'class="tile"', element("b", "", value) + element("span", "", name)) for value, name in tiles))


def _body(record: Record) -> str:
    def two(left: str, right: str) -> str:
        return element("div", 'class="two"', left + right)

    warnings = [("in part", element("code", "", escaped(code)), escaped(what)) for code, what in record.warnings]
    note = element("p", "", _small(escaped(record.command_note))) if record.command_note else ""
    facts = "".join(element("dt", "", escaped(name)) + element("dd", "", escaped(value)) for name, value in record.facts)
    return "".join((
        _header(record), _tiles(record) if record.n_tensors else "", _card("Where every byte went", _flow(record)), _card("Time, by rank", _time_line(record)),
        _card("What each rank did", _ranks_table(record)) if record.ranks else "",
        two(_card("Checks", _signed_list([(check.state, escaped(check.name), escaped(check.text)) for check in record.checks])),
            _card("Warnings", _signed_list(warnings) if warnings else "<p>None.</p>")),
        _card("The command", element("pre", "", escaped(record.command)) + note) if record.command else "",
        two(_card("Files", _sizes_table(record.files, "--p0")), _card("Largest tensors", _sizes_table(record.largest, "--p3"))) if record.files else "",
        _card("How it was run", element("dl", "", facts)), element("footer", "", f"written by {escaped(record.tool)}")))


def _template() -> str:
    with open(os.path.join(os.path.dirname(__file__), "report_page.html"), encoding="utf-8") as file:
        return file.read()


def page_of(record: Record) -> str:
    day = record.started.partition(" ")[0]
    # For a list of tabs: the model, its directory and the day first.
    title = record.headline() + (", failed" if record.code else "") + (f", {day}" if day else "") + f" - shardweld {record.title}"
    with open(os.path.join(os.path.dirname(__file__), "report_page.css"), encoding="utf-8") as file:
        values = {"title": escaped(title), "style": file.read(), "body": _body(record)}
    return re.sub("@(title|style|body)@", lambda found: values[found[1]], _template())


def is_page(head: bytes) -> bool:
    """Whether a file that begins so is a page of a report."""
    return head.startswith(_template().partition("@")[0].encode())

"""Text as the program writes it for people: numbers, tables, and whatever a file says made safe to print."""
import re
from typing import Iterable, List, Sequence

# Shows nothing, or changes how other characters are shown: controls, marks of direction, separators of lines; half of a surrogate pair is no character.
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]")


def printable(text: str, most: int = 200) -> str:
    """Text from a file, cut at so many characters; what is unseen is escaped ("\\x1b")."""
    cut = text[:most] + ("..." if len(text) > most else "")
    return UNSEEN.sub(lambda found: "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogatepass")), cut)


def listed(texts: Sequence[str]) -> str:
    return ", ".join(printable(text) for text in texts[:8]) + (", ..." if len(texts) > 8 else "")


def shape_text(shape: Sequence[int]) -> str:
    """"[4096, 4096]"; of hostile files not all extents."""
    return f"[{', '.join(str(extent) for extent in shape[:32])}{f', ... {len(shape)} axes' if len(shape) > 32 else ''}]"


def glob_matches(glob: str, name: str) -> bool:
    """Whether the whole name matches, "*" standing for any text."""
    first, *others = glob.split("*")
    if not others or not name.startswith(first):
        return glob == name
    at = len(first)
    for part in others[:-1]:  # each as early as it comes
        at = name.find(part, at) + len(part)
        if at < len(part):
            return False
    return name.endswith(others[-1]) and at + len(others[-1]) <= len(name)


def counted(count: int, noun: str) -> str:
    """"1 file", "2 files"."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def human_bytes(count: int) -> str:
    """"4.31 GB"."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB", "PB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        del units[0]
    digits = 0 if units[0] == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {units[0]}"


def duration(seconds: float) -> str:
    """"0.05 s", "12 s", "3.4 min", "2.1 h"."""
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 120:
        return f"{seconds / 60:.1f} min"
    return f"{seconds:.{0 if seconds >= 9.95 else 1 if seconds >= 0.995 else 2}f} s"


def range_text(least: float, most: float) -> str:
    """"12 s", or "12 s to 15 s" where that can be seen."""
    return duration(least) if duration(least) == duration(most) else f"{duration(least)} to {duration(most)}"


def share(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0


def percent(part: float, whole: float) -> str:
    return f"{100 * share(part, whole):.1f} %"


def bar(part: float, whole: float) -> str:
    """Of 24 characters for the whole; at least one for anything."""
    return "#" * max(int(24 * share(part, whole) + 0.5), 1 if part > 0 else 0)


def columns(text: str) -> int:
    """How many columns a terminal gives to a text: two to what is wide in East Asia, none to marks on the character before."""
    if text.isascii():
        return len(text)
    import unicodedata  # few names need it
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def table(aligns: str, rows: Iterable[Sequence[str]]) -> str:
    """Rows as lines, columns two blanks apart; a sign of `aligns` for each column, "<" or ">"."""
    rows = list(rows)
    widths = [max((columns(row[c]) for row in rows), default=0) for c in range(len(aligns))]
    lines = ["  ".join(f"{cell:{sign}{width - columns(cell) + len(cell)}}" for cell, sign, width in zip(row, aligns, widths)).rstrip(" ") for row in rows]
    return "".join(line + "\n" for line in lines)


def _lines(text: str, width: int) -> List[str]:
    """Words in lines of at most so many columns, where none is wider itself."""
    lines = [""]
    for word in re.findall(" *[^ ]+", text):
        if lines[-1] and columns(lines[-1] + word) > width:
            lines.append("")
        lines[-1] += word if lines[-1] else word.lstrip(" ")
    return lines


def fitted(text: str, width: int) -> str:
    """Lines that are broader, broken between words; a command, which is indented, with a backslash, so that a shell reads on."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if columns(line) > width:
            bare = line.lstrip(" ")
            indent, end = len(line) - len(bare) + 2, " \\" if bare != line and bare.startswith(("shardweld ", "mpirun ")) else ""
            lines[at] = " " * (indent - 2) + f"{end}\n{' ' * indent}".join(_lines(bare, width - indent - len(end)))
    return "\n".join(lines)


def wrapped(text: str, indent: int, width: int) -> str:
    """Words in lines of at most `width`, all but the first indented, where one is not longer itself."""
    return ("\n" + " " * indent).join(_lines(text, width - indent)) + "\n"

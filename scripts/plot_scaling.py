#!/usr/bin/env python3
"""plot_scaling.py LINES... --svg FILE [--table FILE]: simulated merges (JSON lines of simulate_merge) as a plot and a table.

One panel for each model and machine: seconds against ranks, both logarithmic, a line for each strategy. The standard
library is enough.
"""

import argparse
import json
import math

COLOURS = {"direct": "#1f6fb4", "collective": "#c8501e"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 270, 210, 60, 60, 46


def read(paths):
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows += [json.loads(line) for line in file if line.strip()]
    return rows


def unique(rows, key):
    return list(dict.fromkeys(row[key] for row in rows))


def element(name, text="", **attributes):
    joined = " ".join(f'{key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    return f"<{name} {joined}>{text}</{name}>" if text else f"<{name} {joined}/>"


class Panel:
    """Where a number of ranks and a time lie on the page."""

    def __init__(self, left, top, most_ranks, seconds):
        self.left, self.top = left, top
        self.decades = math.log10(seconds[1] / seconds[0])
        self.least = seconds[0]
        self.doublings = max(1, math.log2(most_ranks))

    def x(self, ranks):
        return round(self.left + WIDTH * math.log2(ranks) / self.doublings, 1)

    def y(self, seconds):
        return round(self.top + HEIGHT * (1 - math.log10(seconds / self.least) / self.decades), 1)

    def frame(self, title, ranks, seconds):
        yield element("rect", x=self.left, y=self.top, width=WIDTH, height=HEIGHT, fill="none", stroke="#888")
        yield element("text", title, x=self.left, y=self.top - 8, font_size=11)
        for value in ranks:
            yield element("text", str(value), x=self.x(value), y=self.top + HEIGHT + 13, text_anchor="middle", font_size=9)
        decade = seconds[0]
        while decade <= seconds[1] * 1.001:
            yield element("line", x1=self.left, x2=self.left + WIDTH, y1=self.y(decade), y2=self.y(decade), stroke="#ddd")
            yield element("text", f"{decade:g} s", x=self.left - 5, y=self.y(decade) + 3, text_anchor="end", font_size=9)
            decade *= 10


def plot(rows):
    models, machines = unique(rows, "model"), unique(rows, "machine")
    ranks = sorted(set(row["ranks"] for row in rows))
    times = [row["total_s"] for row in rows]
    seconds = (10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times))))
    width = LEFT + len(machines) * (WIDTH + GAP)
    height = TOP + len(models) * (HEIGHT + GAP)
    out = [element("rect", width=width, height=height, fill="white")]
    out.append(element("text", "Simulated merges: seconds against ranks (8 a node)", x=LEFT, y=20, font_size=14))
    for at, (strategy, colour) in enumerate(COLOURS.items()):
        x = LEFT + 420 + 110 * at
        out.append(element("line", x1=x, x2=x + 24, y1=16, y2=16, stroke=colour, stroke_width=2))
        out.append(element("text", strategy, x=x + 30, y=20, font_size=12))
    for row, model in enumerate(models):
        for column, machine in enumerate(machines):
            panel = Panel(LEFT + column * (WIDTH + GAP), TOP + row * (HEIGHT + GAP), ranks[-1], seconds)
            out += panel.frame(f"{machine}: {model}", ranks, seconds)
            for strategy, colour in COLOURS.items():
                points = [
                    f"{panel.x(line['ranks'])},{panel.y(line['total_s'])}"
                    for line in rows
                    if (line["model"], line["machine"], line["strategy"]) == (model, machine, strategy)
                ]
                out.append(element("polyline", points=" ".join(points), fill="none", stroke=colour, stroke_width=1.8))
    body = "\n".join(out)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif">\n{body}\n</svg>\n'
    )


def seconds_of(row):
    """Metadata, read, exchange and copies, meetings, write, all."""
    steps = (row["metadata_s"], row["read_s"], row["exchange_s"] + row["copy_s"], row["meetings_s"], row["write_s"], row["total_s"])
    return [f"{value:.1f}" for value in steps]


def table(rows):
    """Merges by 512 ranks; where strategies differ, a cell has a value for each."""
    yield "| model | machine | metadata | read | exchange and copies | meetings | write | all, s |"
    yield "|---|---|---|---|---|---|---|---|"
    groups = {}
    for row in rows:
        if row["ranks"] == 512:
            groups.setdefault((row["model"], row["machine"]), []).append(seconds_of(row))
    for names, strategies in groups.items():
        yield "| " + " | ".join([*names, *(" / ".join(dict.fromkeys(values)) for values in zip(*strategies))]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", nargs="+")
    parser.add_argument("--svg", required=True)
    parser.add_argument("--table")
    given = parser.parse_args()
    rows = read(given.lines)
    with open(given.svg, "w", encoding="utf-8") as file:
        file.write(plot(rows))
    if given.table:
        with open(given.table, "w", encoding="utf-8") as file:
            file.write("\n".join(table(rows)) + "\n")


if __name__ == "__main__":
    main()

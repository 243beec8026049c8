#!/usr/bin/env python3
"""plot_speed.py RECORDS --svg FILE: how long others take for what shardweld does in one, as a chart.

RECORDS is docs/measurements/performance.json. Each bar is the median of ratios of paired runs: the same files, the same machine, one
after the other. The standard library is enough.
"""

import argparse
import json
import statistics

from plot_scaling import element

INPUTS = (("fsdp", "FSDP, bf16", "verl_fsdp"), ("torch_dist", "Megatron torch_dist, bf16", "verl_megatron"))
WIDTH, LEFT, RIGHT, TOP, BAR, GAP = 820, 190, 96, 74, 24, 8
STYLE = """
text{font:13px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#17202b}
.title{font-size:17px;font-weight:600}.soft{fill:#5d6978}.head{font-weight:600}
.card{fill:#fff;stroke:#e2e6eb}.verl{fill:#d9902f}.copy{fill:#98a3b1}.roof{fill:#c3ccd6}.ours{fill:#2f6fde}.line{stroke:#2f6fde;stroke-dasharray:3 3}
@media(prefers-color-scheme:dark){text{fill:#e7ecf2}.soft{fill:#98a5b5}.card{fill:#161c24;stroke:#29323d}.verl{fill:#e6a855}
.copy{fill:#7d8a9a}.roof{fill:#4d5967}.ours{fill:#5b93f5}.line{stroke:#5b93f5}}
"""


def median_ratio(above, below):
    return statistics.median(a / b for a, b in zip(above, below))


def bars_of(records, layout, peer):
    """Name, style and time as a multiple of shardweld's."""
    beside = records[f"merge/{layout}/bf16/2/auto/warm/no"]["samples"]
    verl = records[f"peer-{peer}/{layout}/bf16/2/auto/warm/no"]["samples"]
    yield "verl 0.9.1's merger", "verl", median_ratio(verl["peer"]["work_s"], verl["merge"]["wall_s"])
    yield "cp -r", "copy", median_ratio(beside["copy"]["wall_s"], beside["merge"]["wall_s"])
    yield "plain copying, 2 ranks", "roof", median_ratio(beside["merge"]["gbs"], beside["roof"]["gbs"])
    yield "shardweld, 2 ranks", "ours", 1.0


def text(x, y, content, style="", anchor="start"):
    return element("text", content, x=x, y=y, text_anchor=anchor, **({"class": style} if style else {}))


def chart(records):
    groups = [(title, list(bars_of(records, layout, peer))) for layout, title, peer in INPUTS]
    most = max(value for _, bars in groups for _, _, value in bars)
    scale = (WIDTH - LEFT - RIGHT) / most
    y, out = TOP, []
    for title, bars in groups:
        out.append(text(24, y + 4, title, "head"))
        y += 16
        top = y
        for name, style, value in bars:
            out.append(text(LEFT - 12, y + 17, name, "soft" if style != "ours" else "head", "end"))
            out.append(element("rect", x=LEFT, y=y, width=round(value * scale, 1), height=BAR, rx=3, **{"class": style}))
            label = f"{value:.1f} times" if value >= 1.05 else "1" if style == "ours" else f"{value:.2f}"
            out.append(text(round(LEFT + value * scale + 8, 1), y + 17, label, "head" if style == "ours" else ""))
            y += BAR + GAP
        x = round(LEFT + scale, 1)
        out.append(element("line", x1=x, x2=x, y1=top - 3, y2=y - 3, **{"class": "line"}))
        y += 26
    height = y + 36
    out.insert(0, element("rect", x=0.5, y=0.5, width=WIDTH - 1, height=height - 1, rx=12, **{"class": "card"}))
    out.insert(1, text(24, 36, "Time of a merge, shardweld = 1", "title"))
    out.append(text(24, height - 36, "Medians of paired runs, warm, without waiting for the disk; 4 GB, beside verl's Megatron merger 2 GB.", "soft"))
    out.append(text(24, height - 17, "2 cores, one virtual disk, where new pages of memory are expensive: cp -r feels that most.",
                    "soft"))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">\n'
            f'<title>Time of a merge beside verl, cp and plain copying</title><style>{STYLE}</style>\n' + "\n".join(out) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records")
    parser.add_argument("--svg", required=True)
    given = parser.parse_args()
    with open(given.records, encoding="utf-8") as file:
        records = json.load(file)["records"]
    with open(given.svg, "w", encoding="utf-8") as file:
        file.write(chart(records))


if __name__ == "__main__":
    main()

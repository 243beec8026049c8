#!/usr/bin/env python3
"""terminal_picture.py --svg FILE COMMAND...: runs shell commands on a terminal and draws what it shows.

Each COMMAND is shown behind a prompt, then run in a pseudo terminal of --columns; the picture has its last state: lines that were written over
are gone, colours stay. --hide TEXT=SHOWN replaces text (directories of this machine) in what is shown. The standard library is enough.
"""

import argparse
import html
import os
import pty
import re
import select
import struct
import subprocess
import fcntl
import termios

COLOURS = {30: "#6e7681", 31: "#ff7b72", 32: "#56d364", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#56d4dd", 37: "#e6edf3"}
CHARACTER, LINE, EDGE, BAR = 8.43, 19, 18, 38
TOKEN = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n\b])|([^\x1b\r\n\b]+)|\x1b.")


def run(command, columns):
    """What a command writes to a terminal of so many columns."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=side, stderr=side, env={**os.environ, "TERM": "xterm-256color"})
    os.close(side)
    seen = b""
    while True:
        try:
            ready, _, _ = select.select([main], [], [], 120)
            part = os.read(main, 65536) if ready else b""
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    process.wait()
    return seen.decode("utf-8", "replace")


class Screen:
    """Lines of (character, style), broken where the terminal ends."""

    def __init__(self, columns):
        self.columns, self.lines, self.row, self.column, self.style = columns, [[]], 0, 0, ""

    def put(self, text):
        for character in text:
            if self.column == self.columns:
                self.go_to(self.row + 1, 0)
            line = self.lines[self.row]
            while len(line) <= self.column:
                line.append((" ", ""))
            line[self.column] = (character, self.style)
            self.column += 1

    def go_to(self, row, column):
        self.row, self.column = max(0, row), max(0, column)
        while len(self.lines) <= self.row:
            self.lines.append([])

    def colour(self, numbers):
        for number in numbers or [0]:
            if number == 0:
                self.style = ""
            elif number == 1:
                self.style += "font-weight:600;"
            elif number == 2:
                self.style += "fill-opacity:.7;"
            elif number % 60 in COLOURS or number in COLOURS:
                self.style = re.sub("fill:[^;]*;", "", self.style) + f"fill:{COLOURS[number if number in COLOURS else number - 60]};"

    def write(self, text):
        for token in TOKEN.finditer(text):
            numbers = [int(number) for number in re.findall(r"\d+", token[1] or "")]
            if token[4]:
                self.put(token[4])
            elif token[3] == "\n":
                self.go_to(self.row + 1, 0)
            elif token[3] == "\r":
                self.column = 0
            elif token[2] == "m":
                self.colour(numbers)
            elif token[2] == "K":
                del self.lines[self.row][0 if numbers == [2] else self.column:]
            elif token[2] == "A":
                self.go_to(self.row - (numbers or [1])[0], self.column)


def drawn_line(line, y):
    runs, out = [], ""
    for character, style in line:
        if runs and runs[-1][1] == style:
            runs[-1][0] += character
        else:
            runs.append([character, style])
    for text, style in runs:
        out += f'<tspan{f" style={chr(34)}{style}{chr(34)}" if style else ""}>{html.escape(text)}</tspan>'
    length = f' textLength="{len(line) * CHARACTER:.1f}" lengthAdjust="spacingAndGlyphs"' if line else ""
    return f'<text x="{EDGE}" y="{y}" xml:space="preserve"{length}>{out}</text>'


def picture(screen, columns, title):
    lines = screen.lines
    while lines and not lines[-1]:
        lines.pop()
    columns = max(min(columns, max(map(len, lines))), 60)
    width, height = round(columns * CHARACTER + 2 * EDGE), BAR + len(lines) * LINE + EDGE
    dots = "".join(f'<circle cx="{EDGE + 4 + 18 * i}" cy="19" r="5.5" fill="{colour}"/>' for i, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")))
    rows = "\n".join(drawn_line(line, BAR + 14 + i * LINE) for i, line in enumerate(lines))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">\n'
            f"<title>{html.escape(title)}</title>\n"
            '<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c9d1d9}</style>\n'
            f'<rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>{dots}\n{rows}\n</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", nargs="+", metavar="COMMAND")
    parser.add_argument("--svg", required=True)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--title", default="shardweld in a terminal")
    parser.add_argument("--hide", action="append", default=[], metavar="TEXT=SHOWN")
    given = parser.parse_args()
    screen = Screen(given.columns)
    for command in given.commands:
        shown = run(command, given.columns)
        line = command
        for pair in given.hide:
            text, _, replacement = pair.rpartition("=")
            shown, line = shown.replace(text, replacement), line.replace(text, replacement)
        screen.write(f"\x1b[32m$\x1b[0m \x1b[1m{line}\x1b[0m\n{shown}")
        if screen.column:
            screen.write("\n")
    with open(given.svg, "w", encoding="utf-8") as file:
        file.write(picture(screen, given.columns, given.title))


if __name__ == "__main__":
    main()

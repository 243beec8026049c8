#!/usr/bin/env python3
"""Whether every row of words in src/core/names/*_rules.txt is asked for in src, and every one asked for is there: where one is missing the program
would stop. Prints each that is not; exits 1 if there is one."""
import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"
rows = [line.split("|")[1].strip() for path in SRC.glob("core/names/*_rules.txt") for line in path.read_text().splitlines() if line.startswith("words")]
code = "".join(path.read_text() for path in SRC.rglob("*.[ch]pp"))
texts = set(re.findall(r'"([^"\n]+)"', code))
asked = set(re.findall(r'\b(?:is_known_as|known_words|is_one)\((?:[^"();]|\([^()]*\))*"([^"\n]+)"\)', code))
# What config.json promises is asked for by the words of another row.
named = {word for path in SRC.glob("core/names/*_rules.txt") for line in path.read_text().splitlines() if line.startswith("words")
         for word in line.split("|")[0].split()}
wrong = [f"words | {row}: asked for nowhere" for row in rows if row not in texts and row not in named]
wrong += [f"words | {row}: twice" for row in set(rows) if rows.count(row) > 1]
wrong += [f"\"{row}\" is asked for and no row of words" for row in asked if row not in rows]
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(1 if wrong else 0)

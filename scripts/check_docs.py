#!/usr/bin/env python3
"""Whether what the documents point at exists: linked files and headings, paths in backticks, and the functions and types that the design pages name."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("slurm/*.md")])
OF_LINUX = {"copy_file_range", "io_uring"}
ROOTS = (".", "src", "include/shardweld")
TOP = ("src/", "include/", "tests/", "scripts/", "docs/", "slurm/", "examples/", "packaging/", "cmake/")


def text_of(page):
    """The page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)


def anchors_of(page):
    """What GitHub makes of the headings, and anchors of their own."""
    heads = re.findall(r"^#+ (.*)$", text_of(page), re.M)
    return {*re.findall(r'<a id="(\w+)">', text_of(page))} | {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head).lower()).replace(" ", "-") for head in heads}


def link_faults(page, text):
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if ":" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{link} leads nowhere"
        elif anchor and anchor not in anchors_of(target):
            yield f"{link} names no heading"


def path_faults(text):
    for path in re.findall(r"`([\w.-]+/[\w./-]*)`", text):
        is_ours = path.startswith(TOP) or path.endswith((".cpp", ".hpp"))
        if is_ours and not re.search(r"[A-Z]{4}", path) and not any((ROOT / root / path).exists() for root in ROOTS):
            yield f"{path} does not exist"


def name_faults(text, words):
    """Names with `::` or `_` that no source has."""
    names = re.findall(r"`(\w+(?:::\w+)+|[a-z]+_[a-z_]+)(?:\([^`]*)?`", text)
    return [f"{name} is not in the sources" for name in names if not (words | OF_LINUX).issuperset(name.split("::"))]


def words_of_sources():
    files = [file for folder in ("src", "include") for file in (ROOT / folder).rglob("*.*")]
    return set(re.findall(r"\w+", "\n".join(file.read_text(encoding="utf-8") for file in files)))


def main():
    words = words_of_sources()
    faults = []
    for page in PAGES:
        text = text_of(page)
        found = [*link_faults(page, text), *path_faults(text)]
        if page.parent.name == "design" or page.name == "design.md":
            found += name_faults(text, words)
        faults += [f"{page.relative_to(ROOT)}: {fault}" for fault in found]
    sys.exit("\n".join(faults) if faults else 0)


main()

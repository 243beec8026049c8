#!/usr/bin/env python3
"""The documents as a site that needs no network: pages, search, and a check of both.

    scripts/docs_site.py [OUT]                builds it into OUT (default: build-site); open OUT/index.html
    scripts/docs_site.py --check              builds it into a temporary directory; fails where mkdocs.yml lacks a page, a link or an anchor
                                              leads nowhere, or the site loads something from the network

Needs mkdocs and mkdocs-material (Debian 12: apt-get install mkdocs-material); without them --check ends with 77.
"""

import argparse
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "docs", "slurm", "examples", "packaging", "tests/bench/machines.json"]
PYTHON = "/usr/bin/python3" if pathlib.Path("/usr/bin/mkdocs").exists() else sys.executable
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


def build(out):
    """The tree's documents as they lie, so that relative links are the same here and on a code host."""
    with tempfile.TemporaryDirectory() as folder:
        pages = pathlib.Path(folder)
        for part in PARTS:
            (pages / part).parent.mkdir(parents=True, exist_ok=True)
            (pages / part).symlink_to(ROOT / part)
        command = [PYTHON, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", ROOT / "mkdocs.yml", "--site-dir", out]
        run = subprocess.run(command, env={**os.environ, "SHARDWELD_SITE_PAGES": folder}, capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stdout + run.stderr)
    finish(out)


def cell_text(cell):
    """Bars without what escapes them in Markdown, and long names with places to break them."""
    breakable = re.sub(r"(?<![^>])[^<]+", lambda text: re.sub(r"\w{20,}", lambda name: name[0].replace("_", "_<wbr>"), text[0]), cell)
    return breakable.replace("\\|", "|")


def finish(out):
    """Browsers let pages of a directory fetch nothing and start no worker: there search has both from a script."""
    index = (out / "search/search_index.json").read_text(encoding="utf-8")
    worker = next(out.glob("assets/javascripts/workers/search.*.js")).read_text(encoding="utf-8")
    script = ('if (location.protocol === "file:") {\n'
              f'  var __search = {{index: Promise.resolve({index}),\n'
              f'    worker: URL.createObjectURL(new Blob([{json.dumps(worker)}], {{type: "text/javascript"}}))}};\n}}\n')
    (out / "search/from_files.js").write_text(script, encoding="utf-8")
    for page in out.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        up = "../" * (len(page.relative_to(out).parts) - 1)
        text = re.sub(r"(?<=<td>).*?(?=</td>)", lambda cell: cell_text(cell[0]), text, flags=re.S)
        page.write_text(re.sub(r'(<script src="[^"]*/?bundle\.)', rf'<script src="{up}search/from_files.js"></script>\1', text, count=1),
                        encoding="utf-8")


class Page(html.parser.HTMLParser):
    """The links, anchors and loaded files of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.loads = [], {""}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.update(value for name in ("id", "name") if (value := attributes.get(name)))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag in LOADS and attributes.get(LOADS[tag]) and attributes.get("rel") != "canonical":
            self.loads.append(attributes[LOADS[tag]])


def site_faults(out):
    pages = {path: Page(path) for path in out.rglob("*.html") if path.name != "404.html"}
    for path, page in pages.items():
        for link in page.links + page.loads:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("http", "https", "mailto") or parts.netloc:
                if link in page.loads:
                    yield f"{path.relative_to(out)} loads {link}"
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.relative_to(out)}: {link} leads nowhere"
            elif target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(out)}: {link} names no heading"
    for path in out.rglob("*.css"):
        yield from (f"{path.relative_to(out)} loads {url}" for url in re.findall(r"url\([\"']?(https?:[^)]*)", path.read_text(encoding="utf-8")))


def navigation_faults():
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    there = [str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")]
    return [f"{path} is not in mkdocs.yml" for path in sorted({*there} - {*listed})]


def check():
    if subprocess.run([PYTHON, "-c", "import mkdocs, pymdownx"], capture_output=True).returncode:
        print("SKIPPED: the site needs mkdocs and mkdocs-material (Debian 12: apt-get install mkdocs-material)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder).resolve() / "site"
        build(out)
        faults = [*navigation_faults(), *site_faults(out)]
    sys.exit("\n".join(faults) if faults else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default=ROOT / "build-site", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    check() if options.check else build(options.out.resolve())


main()

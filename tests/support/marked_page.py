"""Pages whose tables are made from a JSON file: tables between markers, the prose around them stays as it is. Knows markers and tables; nothing of what
is in them. Markers are lines `<!-- figures: NAME -->` and `<!-- end -->`."""
import json
import re

_MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)


def render(page, tables, content):
    """The page with all tables made anew; `tables`: functions of the content by name, an unknown name is an error."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{tables[found[2]](content)}\n{found[3]}", page)


def table(heads, rows):
    if not rows:
        return "Not measured yet.\n"
    head, *body = ("| " + " | ".join(map(str, line)) + " |\n" for line in (heads, *rows))
    return head + "|" + "---|" * len(heads) + "\n" + "".join(body)


def update(page_path, tables, content, check=False):
    """Writes the page; with `check` only says whether it is what the content makes of it."""
    with open(page_path, encoding="utf-8") as file:
        page = file.read()
    rendered = render(page, tables, content)
    if check or rendered == page:
        return rendered == page
    with open(page_path, "w", encoding="utf-8") as file:
        file.write(rendered)
    return True


def text_of(content):
    """JSON with sorted keys, lists of plain values on one line: small differences between versions."""
    text = json.dumps(content, indent=1, sort_keys=True)
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\s+", " ", found.group()).replace("[ ", "[").replace(" ]", "]"), text) + "\n"

"""Hides what must not be shown: one place for all that commands say of their own and of other programs' words."""
import base64
import os
import re
from typing import Dict, Iterable, List, Sequence, Set, Tuple

HIDDEN = "***"
_PIECE = 8
_END = r"\s\"'<>)\]},;"  # what ends a word
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\u00([0-9a-fA-F]{2})|\\U000000([0-9a-fA-F]{2})|%([0-9a-fA-F]{2})|&#[xX]([0-9a-fA-F]{1,2});"
                     r"|\\([0-3][0-7]{2})|&#([0-9]{1,3});|\\([^\w\s])", re.ASCII)
_FORMS = (
    (re.compile(r"hf_[A-Za-z0-9]{16,}"), HIDDEN),
    (re.compile(r"(authorization[\"' ]*[:=])[^\n]*", re.I), r"\1" + HIDDEN),
    (re.compile(rf"(bearer )[^{_END}]*", re.I), r"\1" + HIDDEN),
    (re.compile(rf"://[^{_END}/?@]*@"), "://" + HIDDEN + "@"),
    (re.compile(rf"(://[^{_END}?]*\?)[^{_END}]+"), r"\1" + HIDDEN),
)
_SECRET_NAME = r"[A-Z0-9_]*(?:SECRET|PASSW|PASSPHRASE|CREDENTIAL|JWT|ACCESS_KEY)[A-Z0-9_]*|[A-Z0-9_]*(?:TOKEN|_KEY|_PASS|_SAS|_CREDS?)"
_VALUE = re.compile(rf"((?:^|[\s\"'`({{,;])(?:{_SECRET_NAME})=)[^{_END}]*")
_OPTION = re.compile(rf"((?:^|[\s\"'`({{,;])--(\w[\w-]*)=)[^{_END}]*", re.ASCII)


def redacted(line: str, secrets: Sequence[str]) -> str:
    """A line of another program with *** instead of these secrets, in part and encoded too (base64 of either alphabet, hexadecimal, escapes, twice
    so), of tokens of the Hub, of what follows "Bearer" and "Authorization", and of names, passwords and parameters in addresses."""
    return _without_forms(_without_pieces(line, secrets))


def without_secrets(text: str) -> str:
    """The same for what this program says itself: without what the environment calls a token, key or password, and without HF_TOKEN=..."""
    is_secret = re.compile(_SECRET_NAME).fullmatch
    for name, value in os.environ.items():
        if is_secret(name) and len(value) >= _PIECE and not (value.startswith("/") and os.path.exists(value)):
            text = text.replace(value, HIDDEN)
    text = _VALUE.sub(r"\1" + HIDDEN, _without_forms(text))
    return _OPTION.sub(lambda found: found[1] + HIDDEN if is_secret("_" + found[2].upper().replace("-", "_")) else found[0], text)


def _without_forms(text: str) -> str:
    for form, hidden in _FORMS:
        text = form.sub(hidden, text)
    return text


def _pieces(texts: Iterable[str], size: int, step: int = 1) -> Dict[int, Set[str]]:
    """All stretches of that size, by their length: a shorter text is one."""
    found: Dict[int, Set[str]] = {}
    for text in texts:
        taken = min(size, len(text))
        for at in range(0, len(text) - taken + 1 if taken else 0, step):
            found.setdefault(taken, set()).add(text[at:at + taken])
    return found


def _in_base64(secret: bytes, shift: int) -> str:
    """The digits that a secret alone decides, where `shift` bytes of others stand in front of it."""
    data = bytes(shift) + secret
    return base64.b64encode(data).decode()[:len(data) * 8 // 6][shift + 1 if shift else 0:]


def _unescaped(text: str, places: List[int]) -> Tuple[str, List[int]]:
    """The text behind one layer of escapes, and where each of its letters begins and ends."""
    out, kept, at = "", [], 0
    for found in _ESCAPE.finditer(text):
        digits = next((found[i] for i in range(1, 6) if found[i]), "")
        number = int(digits, 16) if digits else int(found[6], 8) if found[6] else int(found[7]) % 256 if found[7] else ord(found[8])
        out += text[at:found.start()] + chr(number)
        kept += places[at:found.start() + 1]
        at = found.end()
    return out + text[at:], kept + places[at:]


def _without_pieces(line: str, secrets: Sequence[str]) -> str:
    raw = [secret.encode(errors="surrogateescape") for secret in secrets if secret]
    kinds = ((str, _pieces(secrets, _PIECE)), (str.lower, _pieces((one.hex() for one in raw), 2 * _PIECE, 2)),
             (lambda text: text.replace("-", "+").replace("_", "/"), _pieces((_in_base64(one, shift) for one in raw for shift in range(3)), _PIECE)))
    marked: Set[int] = set()
    text, places = line, list(range(len(line) + 1))
    for _ in range(3 if raw else 0):
        for change, pieces in kinds:
            changed = change(text)
            changed = changed if len(changed) == len(text) else text
            for size, some in pieces.items():
                for at in range(len(changed) - size + 1):
                    if changed[at:at + size] in some:
                        marked.update(range(places[at], places[at + size]))
        text, places = _unescaped(text, places)
    return re.sub("\0+", HIDDEN, "".join("\0" if at in marked else letter for at, letter in enumerate(line.replace("\0", "?")))) if marked else line

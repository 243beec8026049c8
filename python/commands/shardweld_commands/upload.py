"""shardweld upload: sends a finished model to the HuggingFace Hub by running the Hub's official client.

A merge runs it too (--merge_step): before it reads anything, and behind its published model. What a person is told is a line of JSON then.
"""
import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List, NoReturn, Sequence, Tuple

from . import command
from .command import CORRUPT, INTERRUPTED, NO_CLIENT, NO_NETWORK, NO_REPOSITORY, NO_RIGHTS, NO_TOKEN, NOT_FOUND, USAGE, Failed, Given
from .headers import LONGEST_INDEX, weight_index
from .redact import redacted
from .stop import Stop
from .text import human_bytes

INSTALL = "install the official one (pip install huggingface_hub) or give its path with --hf_cli"
HELP_LIMIT_S = 120.0  # Python starts slowly on a busy parallel file system
GRACE_S = 4.0         # less than a merge leaves this process
WEIGHTS = (".safetensors", ".bin", ".gguf", ".h5", ".hdf5")


@dataclass
class Upload:
    """What is asked for."""
    directory: str
    repository: str
    is_private: bool
    revision: str
    hf_cli: str
    stop: Stop
    client: str = ""
    secrets: List[str] = field(default_factory=list)
    # It tells of paths, hosts and people, and is nobody's but its owner's.
    kept_back: List[str] = field(default_factory=lambda: ["shardweld_report.json"])

    def retry(self) -> str:
        """The shell command that does it."""
        words = ["shardweld", "upload", self.directory, "--hf_upload_path", self.repository] + ["--private"] * self.is_private
        words += ["--revision", self.revision] if self.revision else []
        return " ".join(shlex.quote(word) for word in words + (["--hf_cli", self.hf_cli] if self.hf_cli else []))


class Teller:
    """Tells people what happens in words, and a merge in lines of JSON."""

    def __init__(self, given: Given) -> None:
        self.is_step, self.is_quiet, self.is_verbose = "merge_step" in given, "quiet" in given, "verbose" in given
        self.has_bar = sys.stderr.isatty() and not self.is_quiet and not self.is_verbose

    def tell(self, event: str, text: str, **facts: object) -> None:
        """"line": of the client; "sent": how far it is; all others are for everybody."""
        if self.is_step:
            print(json.dumps({"event": event, "text": shown(text), **facts}), flush=True)
        elif event == "sent":
            print(f"\r{text}", end="\r", file=sys.stderr, flush=True) if self.has_bar else None
        elif self.is_verbose if event == "line" else not self.is_quiet:
            command.say(f"client: {text}" if event == "line" else text)


# What is looked at before anything is sent.

def check_repository(name: str) -> None:
    """Failed(USAGE) for what the Hub takes for no repository (huggingface_hub 2.4, utils/_validators.py)."""
    fault = ""
    parts = name.split("/")
    if len(parts) != 2:
        fault = "is not a repository's name of owner and model"
    elif not all(re.fullmatch(r"[A-Za-z0-9._-]{1,96}", part) for part in parts):
        fault = "has a part that is not 1 to 96 of letters, digits, '-', '_' and '.'"
    elif any(part[0] in "-." or part[-1] in "-." for part in parts):
        fault = "has a part that begins or ends with '-' or '.'"
    elif "--" in name or ".." in name or name.endswith(".git"):
        fault = "has '--', '..' or ends in '.git', which the Hub does not allow"
    if fault:
        raise Failed(USAGE, f"--hf_upload_path {name} {fault}", "give ORG/NAME, for example me/my-model")


def check_branch(name: str) -> None:
    if name and (not re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9_./-]*", name) or name.endswith(("/", ".lock")) or ".." in name):
        raise Failed(USAGE, f"--revision {name} is no name of a branch", "give for example step-100")


def check_model(directory: str) -> None:
    """Failed(NOT_FOUND) unless the directory holds a finished model: config.json and weights, or an adapter; every file that an index names; no trace
    of a run that is still writing."""
    def refuse(why: str) -> NoReturn:
        raise Failed(NOT_FOUND, f"{directory} is not a finished model: {why}", "give a whole model directory, as shardweld merge writes it")

    root = Path(directory)
    if not root.is_dir():
        raise Failed(NOT_FOUND, f"{directory} is not a readable directory", "check the path")
    if _is_trace(root.absolute().name):
        refuse("it is the partial output of a run")
    names = set(os.listdir(root))
    for name in sorted(names):
        if _is_trace(name):
            refuse(f"it holds {name}, left by a run that has not finished")
        if name.endswith(WEIGHTS) and not _is_full(root / name):
            refuse(f"{name} is empty or dangling")
    if not _is_adapter(root) and not _is_adapter(root / "lora_adapter"):
        if "config.json" not in names:
            refuse("it has no config.json")
        if not any(name.endswith(WEIGHTS) for name in names):
            refuse("it has no weights (*.safetensors)")
    for name in sorted(name for name in names if name.endswith(".index.json")):
        file = root / name
        index = weight_index(file.read_bytes() if file.is_file() and file.stat().st_size <= LONGEST_INDEX else b"", name)
        absent = [one for one in sorted(set(index.file_of.values())) if not _is_full(root / one)]
        if index.fault or absent:
            refuse(index.fault or f"{name} names {absent[0]}, which is missing or empty")


def _is_trace(name: str) -> bool:
    return name.startswith(".") and "shardweld-" in name


def _is_full(file: Path) -> bool:
    return file.is_file() and file.stat().st_size > 0


def _is_adapter(directory: Path) -> bool:
    names = os.listdir(directory) if directory.is_dir() else []
    return "adapter_config.json" in names and any(name.startswith("adapter_") and name.endswith(WEIGHTS) for name in names)


def files_sent(directory: str, kept_back: Sequence[str]) -> Dict[str, int]:
    """What is sent, by its name below the directory, and how large it is: all but what the client leaves out (huggingface_hub 0.34, utils/_paths.py:
    DEFAULT_IGNORE_PATTERNS) and what is kept back. Failed(CORRUPT) for what nobody means to publish: a link that leads out of the directory (but for a
    snapshot of the Hub's cache), to a directory or to nothing, what begins with a dot, what is no file."""
    def refuse(path: str, why: str) -> NoReturn:
        raise Failed(CORRUPT, f"{path} {why}: whatever it leads to or holds would be published", "take it out of the model's directory first")

    real = os.path.realpath(directory)
    homes = [real]
    if os.path.basename(os.path.dirname(real)) == "snapshots":
        homes.append(os.path.join(os.path.dirname(os.path.dirname(real)), "blobs"))
    files: Dict[str, int] = {}
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(os.path.join(directory, below)) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                name, path, is_directory = os.path.join(below, entry.name), os.path.join(directory, below, entry.name), entry.is_dir(follow_symlinks=False)
                if is_directory and (name == ".git" or name == ".cache" and set(os.listdir(path)) <= {"huggingface"}):
                    continue
                end = os.path.realpath(path)
                if entry.is_symlink() and os.path.lexists(end) and not any(end == home or end.startswith(home + "/") for home in homes):
                    refuse(path, f"leads out of the model's directory, to {end}")
                if entry.name.startswith(".") and entry.name not in (".gitattributes", ".gitignore"):
                    refuse(path, "begins with a dot, unlike any file of a model")
                if is_directory:
                    waiting.append(name)
                elif entry.is_symlink() and not os.path.isfile(path):
                    refuse(path, "is a link to a directory" if os.path.isdir(path) else "is not a regular file" if os.path.exists(path) else "is a dangling link")
                elif not entry.is_file():
                    refuse(path, "is not a regular file")
                else:
                    files[name] = entry.stat().st_size
    return {name: size for name, size in files.items() if name not in kept_back}


# The client.

def find_tokens(variables: Dict[str, str]) -> Tuple[bool, List[str], Path]:
    """Where the client takes its token from (huggingface_hub 2.4: constants.py, utils/_auth.py): whether there is one, what must not be shown, and the
    file that `hf auth login` would write."""
    home = variables.get("HF_HOME") or (variables.get("XDG_CACHE_HOME") or "~/.cache") + "/huggingface"
    path = variables.get("HF_TOKEN_PATH") or home + "/token"
    file = Path(variables.get("HOME", "") + path[1:] if path.startswith("~/") else path)
    texts = [variables.get("HF_TOKEN", ""), variables.get("HUGGING_FACE_HUB_TOKEN", "")]
    if file.is_file() and os.access(file, os.R_OK):
        with open(file, encoding="utf-8", errors="surrogateescape") as text:
            texts.append(text.read(65536))
    values = [text.strip() for text in texts if text.strip()]
    # HF_OIDC_RESOURCE: an identity of the CI system, which the client exchanges for a token. Shorter texts are no tokens, and hiding them would make
    # messages unreadable.
    return bool(values or variables.get("HF_OIDC_RESOURCE")), [value for value in values if len(value) >= 4], file


def prepare(asked: Upload) -> None:
    """Finds a client that runs and can upload, and a token: what can be known without a network. Failed(NO_CLIENT), Failed(NO_TOKEN)."""
    has_token, asked.secrets, file = find_tokens(dict(os.environ))
    asked.client = find_client(asked)
    if not has_token:
        raise Failed(NO_TOKEN, "uploading needs a Hub token, and there is none",
                     f"run hf auth login, or set HF_TOKEN (looked at HF_TOKEN, HUGGING_FACE_HUB_TOKEN and {file})")


def find_client(asked: Upload) -> str:
    """The client that was asked for, else the first on PATH that can upload."""
    given = asked.hf_cli
    candidates = [os.path.abspath(found) for found in map(shutil.which, [given] if given else ["hf", "huggingface-cli"]) if found]
    if given and not candidates:
        raise Failed(NO_CLIENT, f"--hf_cli {given} is {'not a program that can be run' if '/' in given else 'not on PATH'}", INSTALL)
    what = ""
    for client in candidates:
        run = ClientRun(asked, [client, "upload", "--help"], limit_s=HELP_LIMIT_S)
        if run.was_stopped:
            raise Failed(INTERRUPTED, f"stopped by a signal while trying {client}")
        fault = (run.fault if run.fault else "it does not answer to 'upload --help' within two minutes" if run.took_too_long else
                 "'upload --help' fails" + (f" ({run.last[:400]})" if run.last else "") if run.code != 0 else
                 # In the help of every version.
                 "" if "repo_id" in run.text.lower() else "it is not the Hub's client ('upload --help' mentions no repository)")
        if not fault:
            return client
        what = what or f"the client {client} cannot be used: {fault}"
    raise Failed(NO_CLIENT, what or "uploads need the Hub's client, but neither hf nor huggingface-cli is on PATH", INSTALL)


class ClientRun:
    """One run of the client: what it says, secrets replaced, and how it ended. What asks this process to stop is passed on to it."""

    def __init__(self, asked: Upload, words: Sequence[str], on_line: Callable[[str], None] = lambda line: None, limit_s: float = float("inf")) -> None:
        self.secrets, self.on_line = asked.secrets, on_line
        self.text = self.error = self.last = self.fault = ""
        self.code, begun = 0, time.monotonic()
        # No question about new versions, no colours, no held-back output.
        quiet = {"HF_HUB_DISABLE_UPDATE_CHECK": "1", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
        try:
            self.code = asked.stop.run(words, self._take, signal.SIGTERM, signal.SIGTERM, {**quiet, **command.own_environment()}, GRACE_S, limit_s, b"[\r\n]")
        except Failed as failed:
            self.fault = failed.what
        self.was_stopped, self.took_too_long = bool(asked.stop.why()), time.monotonic() - begun > limit_s

    def _take(self, said: str) -> None:
        if said:
            line = shown(redacted(said[:65536], self.secrets))[:4096]
            self.text = (self.text + line + "\n")[-65536:]
            if re.match(r"[^ :]*Error:", line):
                self.error = line
            else:
                self.last = line
            self.on_line(line)


def shown(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def send(asked: Upload, sizes: Dict[str, int], teller: Teller) -> None:
    """Creates the repository if there is none, and uploads the directory; returns when all is there."""
    begun, size = time.monotonic(), sum(sizes.values())
    teller.tell("begin", f"uploading {asked.directory} to {asked.repository} ({asked.client})", bytes=size)
    run = _run_client(asked, sizes, teller)
    # A mirror that judges no model cards (huggingface_hub's create_commit asks it about each README.md) gets all but the card.
    if run.code != 0 and not run.was_stopped and "/api/validate-yaml" in run.text and "404" in run.text:
        teller.tell("note", "note: the Hub at HF_ENDPOINT takes no model card: README.md stays here")
        asked.kept_back.insert(0, "README.md")  # first: old clients heed the last of several
        run = _run_client(asked, sizes, teller)
    if run.code == 0 and not run.fault and not run.was_stopped:
        teller.tell("end", f"uploaded {asked.directory} to {asked.repository}: {human_bytes(size)} in {time.monotonic() - begun:.1f} s", bytes=size)
        return
    if run.fault:
        code, what = NO_CLIENT, run.fault
    elif run.was_stopped:
        code, what = INTERRUPTED, "the upload was stopped by a signal"
    elif run.code < 0:
        code, what = INTERRUPTED, f"the client was ended by a signal (signal {-run.code}{', killed' if run.code == -signal.SIGKILL else ''})"
    else:
        code, what = failure_of(run.text)
    says = f"; the client says: {(run.error or run.last)[:300]}" if run.error or run.last else ""
    advice = {NO_CLIENT: INSTALL, NO_TOKEN: "run hf auth login or set HF_TOKEN", NO_REPOSITORY: "check the owner and the name",
              NO_RIGHTS: f"use a token that may write to {asked.repository.split('/')[0]}",
              NO_NETWORK: "compute nodes are often offline: upload from one with a network, or later"}
    raise Failed(code, f"not uploaded to {asked.repository}: {what}{says}",
                 f"{advice.get(code, 'what the Hub already has is not sent again')}; then, from {asked.directory}: {asked.retry()}")


def _run_client(asked: Upload, sizes: Dict[str, int], teller: Teller) -> ClientRun:
    # The client makes the repository itself; absolute, so that no name looks like an option.
    words = [asked.client, "upload", asked.repository, os.path.abspath(asked.directory), ".", "--repo-type", "model"]
    words += ["--private"] * asked.is_private + (["--revision", asked.revision] if asked.revision else [])
    bars = Bars(sizes)

    def on_line(line: str) -> None:
        teller.tell("line", line)
        before, now = bars.sent, bars.read(line)
        if now != before:
            teller.tell("sent", f"uploading: {100 * now // sum(sizes.values())} %", bytes=now)

    return ClientRun(asked, words + [word for name in asked.kept_back for word in ("--exclude", name)], on_line)


class Bars:
    """How far the client is, from the bars that it prints: one a file, or with Xet one for all (huggingface_hub 1.33, lfs.py and
    utils/_xet_progress_reporting.py). Only for people: what is not understood changes nothing."""

    def __init__(self, sizes: Dict[str, int]) -> None:
        self.sizes, self.done, self.sent = sizes, dict.fromkeys(sizes, 0), 0

    def read(self, line: str) -> int:
        """Bytes sent, after another line; never fewer than before."""
        found = re.match(r"(.*): *(\d{1,3})%\|", line)
        if found and int(found[2]) <= 100:
            percent = int(found[2])
            if found[1] in self.sizes:
                self.done[found[1]] = self.sizes[found[1]] * percent // 100
            is_of_all = found[1].startswith("Processing Files")
            self.sent = max(self.sent, sum(self.sizes.values()) * percent // 100 if is_of_all else sum(self.done.values()))
        return self.sent


# A status beside words which make it one: "client error '404 ...", "server error (503 ...", "401 client error", "403 forbidden".
STATUS = re.compile(r"(?:([45]\d\d)[^a-z0-9])?(?:client error|server error|http error|http status|status code|forbidden|unauthorized)"
                    r"[ '\":(]*(?:([45]\d\d)(?![a-z0-9]))?")


def failure_of(output: str) -> Tuple[int, str]:
    """The code, and what the last telling words say: clients try again by themselves, so earlier words need not be the reason."""
    text = output.lower()
    rows = [line.split(" | ") for line in Path(__file__).with_name("client_words.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    last, code, what = max(((text.rfind(words), int(number), meaning) for number, meaning, *several in rows for words in several), key=lambda one: one[0])
    statuses = [(found.start(at), found[at]) for found in STATUS.finditer(text) for at in (1, 2) if found[at]]
    # A status is plainer than the words that come with it ("401 ... invalid username or password").
    if statuses and last < statuses[-1][0] + 600:
        status = int(statuses[-1][1])
        code, what = ((NO_RIGHTS, "the Hub refused the token or its rights") if status in (401, 403)
                      else (NO_REPOSITORY, "the Hub knows no such repository or owner") if status == 404
                      else (NO_NETWORK, "the Hub does not answer as it should") if status in (408, 429) or status >= 500
                      else (INTERRUPTED, "the Hub refused the upload"))
        return code, f"{what} ({status})"
    return (code, what) if last >= 0 else (INTERRUPTED, "the client gave up")


def run(given: Given) -> int:
    """As a step of a merge only what can be known before there is a model ("check"), or all but the look at the model, which the merge has just made."""
    asked = Upload(given.get("local_dir"), given.get("hf_upload_path"), "private" in given, given.get("revision"), given.get("hf_cli"), Stop())
    teller, step, sizes = Teller(given), given.get("merge_step"), {}  # type: Teller, str, Dict[str, int]
    try:
        check_repository(asked.repository)
        if not step:
            check_branch(asked.revision)
            try:
                check_model(asked.directory)
            except Failed:
                command.refuse_checkpoint(asked.directory)
                raise
        if step != "check":
            sizes = files_sent(asked.directory, asked.kept_back)
        prepare(asked)
        if step != "check":
            send(asked, sizes, teller)
        if "json" in given:
            command.show(given, f"uploaded to {asked.repository}", files=len(sizes), bytes=sum(sizes.values()))
        return 0
    except Failed as failed:
        if not step:
            raise
        if failed.code == CORRUPT:
            failed.what, failed.hint = f"not uploaded to {asked.repository}: {failed.what}", f"{failed.hint}; then: {asked.retry()}"
        teller.tell("failed", failed.what, code=failed.code, hint=shown(failed.hint))
        return failed.code


COMMAND = command.Command("upload", run)

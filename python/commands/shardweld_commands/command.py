"""What all commands share: their description, command line, messages, and how they ask the program.

A command is a module with a line `COMMAND = Command(NAME, run)` and a description, descriptions/NAME.json; the program starts it as `shardweld-NAME
ARGUMENTS`. `--describe` prints the description with the names that `shardweld help --json` has, so that help, manual pages and completions know one table.
"""
import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

from .text import fitted, wrapped

# docs/using/errors.md
USAGE, NOT_FOUND, CORRUPT, UNSUPPORTED, MISMATCH, IO, SPACE, MEMORY, LAUNCH, STOPPED, TARGET, DIFFERS, STRICT, LOCKED, INCOMPLETE = range(2, 17)
NO_CLIENT, NO_TOKEN, NO_RIGHTS, NO_REPOSITORY, NO_NETWORK, INTERRUPTED = range(20, 26)
INTERNAL = 70

_PROGRAM = {"SHARDWELD_PROGRAM": "the program that the command asks, which sets it; without it the first shardweld on PATH"}

Row = Dict[str, Any]


class Failed(Exception):
    """Ends the command with a documented exit code and one message: what is wrong, where ("" if `what` says it), and what to do."""

    def __init__(self, code: int, what: str, hint: str = "", where: str = "") -> None:
        super().__init__(what)
        self.code, self.what, self.hint, self.where = code, what, hint, where


@dataclass
class Given:
    """A command line as it was read. Values have the options' names, with "_"."""
    values: Dict[str, List[str]] = field(default_factory=dict)
    passed_on: List[str] = field(default_factory=list)  # words for the command whose options are taken, too, in their order

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str, default: str = "") -> str:
        return self.values[name][-1] if name in self.values else default

    def all(self, name: str) -> List[str]:
        return self.values.get(name, [])

    def number(self, name: str, default: int, most: int = (1 << 31) - 1) -> int:
        text = self.get(name, "1")
        if not re.fullmatch("[0-9]{1,10}", text) or not 1 <= int(text) <= most:
            raise Failed(USAGE, f"--{name} is {text!r}, which is no number in its range", f"give one from 1 to {most}")
        return int(text) if name in self else default

    def size(self, name: str, default: str) -> int:
        """Bytes: "5GB" is 5e9, "5GiB" and "5G" are 5 * 2^30."""
        text = self.get(name, default)
        found = re.fullmatch(r"([0-9]{1,19}(?:\.[0-9]{0,19})?)(?:([kKMGT])(i?B)?|B)?", text)
        size = 0
        if found and not (found[2] == "k" and found[3] != "B"):
            size = int(float(found[1]) * (1000 if found[3] == "B" else 1024) ** (" KMGT".index(found[2].upper()) if found[2] else 0))
        if size < 1:
            raise Failed(USAGE, f"--{name} is {text!r}, which is no size", "give for example 200MB, 512MiB or a number of bytes")
        return size


def _read(name: str) -> Row:
    with open(os.path.join(os.path.dirname(__file__), "descriptions", name + ".json"), encoding="utf-8") as file:
        told: Row = json.load(file)
        return told


def _full(row: Row) -> Row:
    """An option with all that `help --json` tells of one. How the help writes its value: "" for a flag; "[a|b]": it may be left out and is a then.
    "kind" of the value: directory, file, text, word or none. `is_usual`: it is in the short help, too."""
    full = {"value": "", "help": "", "letter": "", "group": "Options", "words": [], "is_repeated": False, "is_usual": True, **row}
    kind = row.get("kind") or ("word" if full["words"] else "text" if full["value"] else "none")
    return dict(full, kind=kind, is_listed=bool(full["group"]), may_lack_value=full["value"].startswith("["))


class Command:
    """A command: `run` returns the exit code or raises Failed. `told`: the description, where it is not the file's: usage, summary, about (lines), options
    (rows, or names of those in shared.json); and where there are any arguments (options that plain arguments stand for, in order; a repeated one takes the
    rest), passes_on (a command of the program whose options are taken, too, all but those that it refuses, with what to do instead), exit_codes,
    environment and files."""

    def __init__(self, name: str, run: Callable[[Given], int], told: Optional[Row] = None) -> None:
        self.name, self.run = name, run
        self.told = _read(name) if told is None else told
        shared = _read("shared")
        rows = ({"name": row, **shared[row]} if isinstance(row, str) else row for row in [*self.told["options"], "color", "help"])
        self.options: Dict[str, Row] = {row["name"]: _full(row) for row in rows}
        self.arguments: List[str] = self.told.get("arguments", [])
        self.passes_on: str = self.told.get("passes_on", "")
        self.refuses: Dict[str, str] = self.told.get("refuses", {})
        self.usage: str = self.told["usage"]
        self.about = "".join(line + "\n" for line in self.told["about"])

    def start(self, words: Sequence[str]) -> int:
        """Runs the command line behind the name; all errors become one message and their code."""
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # names as the file system has them
        try:
            asked, code = next((word for word in words if word in ("-h", "--help")), ""), 0
            if asked or "--describe" in words:
                print(self._help(asked == "-h") if "--describe" not in words else json.dumps(self.description(), indent=1) + "\n", end="")
            else:
                code = self.run(self._parse(list(words)))
            sys.stdout.flush()
            return code
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except Failed as error:
            failed = error
        except OSError as error:
            failed = Failed(SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else IO, f"{error.filename or 'the result'}: {error.strerror or error}")
        except MemoryError:
            failed = Failed(MEMORY, "memory ran out")
        if "--json" in words and failed.code not in (DIFFERS, STRICT, INCOMPLETE):  # these are told by the result
            print(json.dumps({"schema": 1, "ok": False, "error": {"code": failed.code, "what": failed.what, "where": failed.where, "hint": failed.hint}}))
        complain(failed)
        return failed.code

    # Its help.

    def description(self) -> Row:
        """The rows of `help --json` that are this command's."""
        def rows(key: str, more: Dict[str, str]) -> List[Row]:
            return [{"name": name, "meaning": meaning} for name, meaning in {**self.told.get(key, {}), **more}.items()]

        return {"name": self.name, "usage": self.usage, "summary": self.told["summary"], "about": self.about, "arguments": self.arguments,
                "passes_on": self.passes_on, "refuses": list(self.refuses),
                "options": [{key: value for key, value in row.items() if key != "is_usual"} for row in self.options.values()],
                "exit_codes": [{"code": int(code), "meaning": meaning} for code, meaning in self.told.get("exit_codes", {}).items()],
                "environment": rows("environment", _PROGRAM), "files": rows("files", {})}

    def _help(self, is_short: bool) -> str:
        """The usual options, or all of them by groups with those that are passed on, and what more there is to say."""
        text, group = f"Usage: {self.usage}\n\n{self.told['summary']}\n" + "\n" * is_short, ""
        others = () if is_short else ({**row, "help": row["help_by_command"][self.passes_on]} for row in self._options_passed_on().values())
        for row in (*self.options.values(), *others):
            if row["is_listed"] and row["name"] not in self.refuses and (not is_short or row["is_usual"]):
                text += f"\n{row['group']}\n" if row["group"] != group and not is_short else ""
                group = row["group"]
                text += _option_text(row)
        return fitted(text + (f"\nAll options, and examples: shardweld {self.name} --help, or man shardweld-{self.name}\n" if is_short else f"\n{self.about}"), _width())

    # Its command line.

    def _options_passed_on(self) -> Dict[str, Row]:
        """Those of the other command that this one has not itself."""
        rows = read_json(["help", self.passes_on, "--json"])["options"] if self.passes_on else []
        return {row["name"]: row for row in rows if row["name"] not in self.options}

    def _parse(self, words: List[str]) -> Given:
        """Names with "-" or "_", "--name=value", letters together; plain words in the order of `arguments`."""
        known = {**self._options_passed_on(), **self.options}
        given, plain = Given(), []
        while words:
            word = words.pop(0)
            if word == "--":
                plain += words
                break
            if not word.startswith("-") or word == "-":
                plain.append(word)
                continue
            typed, has_value, value = word.lstrip("-").partition("=")
            names = [typed.replace("-", "_")]
            if not word.startswith("--") and not (len(typed) > 1 and self._meant(names[0], known) in known):
                names = [next((row["name"] for row in known.values() if row["letter"] == letter), "") for letter in typed]
            for name in names:
                row = known.get(self._meant(name, known)) or self._refuse_unknown(word, known)
                if row["name"] in self.refuses:
                    self._refuse(f"--{row['name']} is not an option of {self.name}", self.refuses[row["name"]])
                self._put(given, row, self._value(row, bool(has_value), value, words))
        if self.passes_on and not self.arguments:
            given.passed_on += plain
            plain = []
        names = list(self.arguments)
        if names and self.options[names[-1]]["is_repeated"]:  # takes all that are left
            names += names[-1:] * (len(plain) - len(names))
        if len(plain) > len(names):
            self._refuse(f"unexpected argument {plain[-1]!r}", f"usage: {self.usage}")
        for name, value in zip(names, plain):
            self._put(given, self.options[name], value)
        return given

    def _meant(self, name: str, known: Dict[str, Row]) -> str:
        """An option's name, which may be that in another tool."""
        meant = "" if name in known else self._typed_row(name)[0]
        return name if name in known else meant[3:] if meant.startswith("=--") else ""

    def _typed_row(self, typed: str) -> Tuple[str, str]:
        """What an option of another tool is called here, and what to know of it: a row of typed_words.txt, which the program reads, too."""
        with open(os.path.join(os.path.dirname(__file__), "typed_words.txt"), encoding="utf-8") as file:
            part = file.read().split("\n[options]\n")[1].split("\n[values]\n")[0]
        rows = [(line + "|||").split("|")[:4] for line in part.splitlines() if line and not line.startswith("#")]
        return next(((means.strip(), text.strip()) for command in (self.name, self.passes_on) if command for at, words, means, text in rows
                     if typed in words.split() and (command in at.split() or ("every" in at.split() and "-" + command not in at.split()))), ("", ""))

    def _value(self, row: Row, has_value: bool, value: str, words: List[str]) -> str:
        """The value behind "=", else the next word, which is taken off; "true" for a flag."""
        needs = f"--{row['name']} needs a value: {row['value']}"
        if row["kind"] == "none":
            return self._refuse(f"--{row['name']} takes no value") if has_value else "true"
        if has_value:
            return value or self._refuse(needs)
        implied: List[str] = row["value"].strip("[]").split("|") if row["may_lack_value"] else []
        if words and (words[0] in implied if implied else not words[0].startswith("--")):
            return words.pop(0)
        return implied[0] if implied else self._refuse(needs)

    def _put(self, given: Given, row: Row, value: str) -> None:
        name = row["name"]
        if name not in self.options:
            given.passed_on.append(f"--{name}" if row["kind"] == "none" else f"--{name}={value}")
            return
        value = next((word for word in row["words"] if word.lower() == value.lower()), value)  # as their makers write them: vLLM, SGLang
        if row["words"] and value not in row["words"]:
            self._refuse(f"--{name} is {value!r}, which is none of {', '.join(row['words'])}")
        if name in given.values and not row["is_repeated"]:
            self._refuse(f"--{name} is given twice: {given.get(name)!r} and {value!r}", "give it once")
        given.values.setdefault(name, []).append(value)

    def _refuse_unknown(self, word: str, known: Dict[str, Row]) -> NoReturn:
        import difflib  # only where something is wrong
        typed = word.lstrip("-").partition("=")[0].replace("-", "_")
        (means, text), near = self._typed_row(typed), difflib.get_close_matches(typed, known, 1)
        guess = " ".join(filter(None, [means and f"did you mean {means.lstrip('=')}?", text]))
        self._refuse(f"unknown option {word}", guess or (f"did you mean --{near[0]}?" if near else ""))

    def _refuse(self, what: str, hint: str = "") -> NoReturn:
        raise Failed(USAGE, what, hint or f"shardweld {self.name} --help lists the options")


def _width() -> int:
    """Of what shows the help."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, 40), 96)


def _option_text(row: Row) -> str:
    name = (f"  -{row['letter']}, " if row["letter"] else "      ") + f"--{row['name']}" + (f" {row['value']}" if row["value"] else "")
    column = 10 if _width() < 72 else 26
    front = name.ljust(column) if len(name) < column else f"{name}\n{' ' * column}"
    return front + wrapped(row["help"], column, _width())


def show(given: Given, text: str, **more: Any) -> None:
    """Prints a result: the text, or with --json an object with its verdict, the directory that it is about, `more` and the text."""
    place = given.get("local_dir") or given.get("ref")
    told = {"schema": 1, "ok": True, **({"dir": place} if place else {}), **more, "text": text}
    print(json.dumps(told, indent=2) if "json" in given else text, end="\n" if "json" in given else "", flush=True)


def on_terminal(text: str, file: Any) -> str:
    """The text, its lines broken where a terminal that shows the file ends."""
    return fitted(text, os.get_terminal_size(file.fileno()).columns) if file.isatty() else text


def say(text: str) -> None:
    """A line for the person, on standard error, without secrets; control characters are shown as "?"."""
    from .redact import without_secrets  # most runs say nothing
    shown = "".join(c if c in "\n\t" or c.isprintable() else "?" for c in without_secrets(text))
    print(on_terminal(shown, sys.stderr), file=sys.stderr, flush=True)


def complain(failed: Failed) -> None:
    """An error as the program prints its own."""
    lines = [f"error: {failed.what}"]
    lines += [f"where: {failed.where}"] if failed.where else []
    lines += [f"hint: {failed.hint}"] if failed.hint else []
    lines += [f"see: shardweld help {failed.code}"] if failed.code != USAGE else []
    say("\n  ".join(lines))


# The program, and others.

def program() -> str:
    """The shardweld that has started this command, or the first on PATH."""
    return os.environ.get("SHARDWELD_PROGRAM", "shardweld")


def own_environment() -> Dict[str, str]:
    """This process's variables without those by which a launcher would take a program that it starts for one of its ranks."""
    hostile = ("OMPI_COMM_", "OMPI_UNIVERSE", "OMPI_APP_", "OMPI_NUM_", "OMPI_FIRST_", "OMPI_FILE_", "OMPI_MCA_orte_", "OMPI_MCA_ess_", "PMIX_", "PMI_",
               "PRTE_", "HYDRA_", "MPI_LOCAL", "MPIEXEC_", "PALS_", "SLURM_PROCID", "SLURM_LOCALID")
    return {name: value for name, value in os.environ.items() if not name.startswith(hostile)}


def run(words: Sequence[str], **how: Any) -> "subprocess.CompletedProcess[str]":
    """Runs the program to its end; `how` goes to subprocess.run. Failed(LAUNCH) where it cannot be started."""
    try:
        return subprocess.run([program(), *words], env=own_environment(), text=True, check=False, **how)
    except OSError as error:
        raise Failed(LAUNCH, f"cannot run {program()}: {error.strerror}", "put shardweld's bin directory on PATH") from None


def read_json(words: Sequence[str]) -> Any:
    """What the program prints for these words, parsed. Its warnings and errors go to the person, and its code ends this command, too."""
    done = run(words, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.stdout.write(done.stdout if "--json" in sys.argv else "")  # its error
        raise SystemExit(done.returncode)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Failed(INTERNAL, f"{program()} {' '.join(words[:2])} did not print JSON", "take a program of the same version as this command") from None


def refuse_checkpoint(directory: str) -> None:
    """For who expected a finished model: Failed(NOT_FOUND) where the directory holds a checkpoint that is still to be merged."""
    found = run(["inspect", directory, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if found.returncode == 0:
        raise Failed(NOT_FOUND, f"{directory} is a {json.loads(found.stdout)['format']} checkpoint, no finished model", "merge it first")

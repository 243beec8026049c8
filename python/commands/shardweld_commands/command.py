"""What all commands share: their description, command line, messages, and how they ask the program.

A command is a module with a `COMMAND`; the program starts it as `shardweld-NAME ARGUMENTS`. `--describe` prints the description with the names that
`shardweld help --json` has, so that help, manual pages and completions know one table.
"""
import errno
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

from .typed_words import option_guess, taken_for

# docs/using/errors.md
USAGE, NOT_FOUND, CORRUPT, UNSUPPORTED, MISMATCH, IO, SPACE, MEMORY, LAUNCH, STOPPED, TARGET, DIFFERS, STRICT, LOCKED, INCOMPLETE = range(2, 17)
NO_CLIENT, NO_TOKEN, NO_RIGHTS, NO_REPOSITORY, NO_NETWORK, INTERRUPTED = range(20, 26)
INTERNAL = 70

_NAME_COLUMN = 26
_WIDTH = 96


_PROGRAM = ("SHARDWELD_PROGRAM", "the program that the command asks, which sets it; without it the first shardweld on PATH")


class Failed(Exception):
    """Ends the command with a documented exit code and one message: what is wrong, where ("" if `what` says it), and what to do."""

    def __init__(self, code: int, what: str, hint: str = "", where: str = "") -> None:
        super().__init__(what)
        self.code, self.what, self.hint, self.where = code, what, hint, where


@dataclass(frozen=True)
class Option:
    """One option, as `help --json` tells of it. `value`: how the help writes its value, "" for a flag; "[a|b]": it may be left out and is a then."""
    name: str
    value: str = ""
    help: str = ""
    letter: str = ""
    group: str = "Options"
    kind: str = ""          # of the value: directory, file, text, word; "" for what follows from the rest
    words: Tuple[str, ...] = ()
    is_repeated: bool = False
    is_usual: bool = True   # in the short help, too

    def description(self) -> Dict[str, Any]:
        told = asdict(self)
        del told["is_usual"]
        told["kind"] = self.kind or ("word" if self.words else "text" if self.value else "none")
        return dict(told, is_listed=bool(self.group), may_lack_value=self.value.startswith("["))


VERBOSE = Option("verbose", "", "say more", "v", "Output", is_usual=False)
QUIET = Option("quiet", "", "say errors only", "q", "Output", is_usual=False)
JSON = Option("json", "", "print the result as JSON", group="Output")
HELP = Option("help", "", "print this text; -h: the usual options", "h", "Output", is_usual=False)


@dataclass
class Given:
    """A command line as it was read. Values have the options' names, with "_"."""
    values: Dict[str, List[str]] = field(default_factory=dict)
    passed_on: List[str] = field(default_factory=list)  # words of Command.passes_on, in their order

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str, default: str = "") -> str:
        return self.values[name][-1] if name in self.values else default

    def all(self, name: str) -> List[str]:
        return self.values.get(name, [])


@dataclass(frozen=True)
class Command:
    """A command: what the help says of it, and `run`, which returns the exit code or raises Failed."""
    name: str
    usage: str
    summary: str
    about: str
    run: Callable[[Given], int]
    options: Tuple[Option, ...]
    arguments: Tuple[str, ...] = ()   # options that plain arguments stand for, in order; none: they are passed on
    passes_on: str = ""               # a command of the program whose options are taken too, and kept in Given.passed_on
    exit_codes: Tuple[Tuple[int, str], ...] = ()  # beyond those that every command has
    environment: Tuple[Tuple[str, str], ...] = ()
    files: Tuple[Tuple[str, str], ...] = ()

    def start(self, words: Sequence[str]) -> int:
        """Runs the command line behind the name; all errors become one message and their code."""
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # names as the file system has them
        try:
            if "--describe" in words:
                print(json.dumps(self.description(), indent=1))
                return 0
            asked = next((word for word in words if word in ("-h", "--help")), None)
            if asked:
                print(self._short_help() if asked == "-h" else self._help(), end="")
                return 0
            code = self.run(self._parse(list(words)))
            sys.stdout.flush()
            return code
        except Failed as failed:
            complain(failed)
            return failed.code
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except OSError as error:
            code = SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else IO
            complain(Failed(code, f"{error.filename or 'the result'}: {error.strerror or error}"))
            return code
        except MemoryError:
            complain(Failed(MEMORY, "memory ran out"))
            return MEMORY

    def description(self) -> Dict[str, Any]:
        """The rows of `help --json` that are this command's."""
        return {"name": self.name, "usage": self.usage, "summary": self.summary, "about": self.about, "arguments": list(self.arguments),
                "passes_on": self.passes_on, "options": [option.description() for option in self._own_options()],
                "exit_codes": [{"code": code, "meaning": meaning} for code, meaning in self.exit_codes],
                "environment": [{"name": name, "meaning": meaning} for name, meaning in self.environment + (_PROGRAM,)],
                "files": [{"name": name, "meaning": meaning} for name, meaning in self.files]}

    def _own_options(self) -> Tuple[Option, ...]:
        return self.options + (HELP,)

    def _passed_on_options(self) -> List[Option]:
        """Those of the other command that the help lists and this one has not itself."""
        rows = read_json(["help", self.passes_on, "--json"])["options"] if self.passes_on else []
        own = {option.name for option in self._own_options()}
        return [Option(row["name"], row["value"], row["help_by_command"][self.passes_on], row["letter"], row["group"])
                for row in rows if row["is_listed"] and row["name"] not in own]

    def _heading(self) -> str:
        return f"Usage: {self.usage}\n\n{self.summary}\n"

    def _short_help(self) -> str:
        rows = "".join(_option_text(option) for option in self._own_options() if option.is_usual and option.group)
        return f"{self._heading()}\n{rows}\nAll options, and examples: shardweld {self.name} --help, or man shardweld-{self.name}\n"

    def _help(self) -> str:
        text, group = self._heading(), ""
        for option in (*self._own_options(), *self._passed_on_options()):
            if option.group and option.group != group:
                group = option.group
                text += f"\n{group}\n"
            text += _option_text(option) if option.group else ""
        return f"{text}\n{self.about}"

    def _parse(self, words: List[str]) -> Given:
        """Names with "-" or "_", "--name=value", letters together; plain words in the order of `arguments`."""
        known = {option.name: option.description() for option in self._own_options()}
        others: Dict[str, Dict[str, Any]] = {}
        if self.passes_on:
            told = read_json(["help", self.passes_on, "--json"])
            others = {row["name"]: row for row in told["options"] if row["name"] not in known}
        given, plain, at = Given(), [], 0
        while at < len(words):
            word = words[at]
            at += 1
            if word == "--":
                plain += words[at:]
                break
            if not word.startswith("-") or word == "-":
                plain.append(word)
                continue
            typed, has_value, value = word.lstrip("-").partition("=")
            names = [typed.replace("-", "_")]
            if not word.startswith("--") and not (len(typed) > 1 and self._option_of(names[0], known, others)):
                names = [self._name_of_letter(letter, known, others, word) for letter in typed]
            for name in names:
                row = self._option_of(name, known, others) or self._refuse_unknown(word, list(known) + list(others))
                name = row["name"]
                if row["kind"] == "none":
                    if has_value:
                        self._refuse(f"--{name} takes no value")
                    value = "true"
                elif not has_value:
                    implied = row["value"].strip("[]").split("|") if row["may_lack_value"] else []
                    follows = at < len(words) and (words[at] in implied if implied else not words[at].startswith("--"))
                    if follows:
                        value = words[at]
                        at += 1
                    elif implied:
                        value = implied[0]
                    else:
                        self._refuse(f"--{name} needs a value: {row['value']}")
                if has_value and not value:
                    self._refuse(f"--{name} needs a value: {row['value']}")
                if name in known:
                    self._put(given, row, value)
                else:
                    given.passed_on.append(f"--{name}" if row["kind"] == "none" else f"--{name}={value}")
        if self.passes_on and not self.arguments:
            given.passed_on += plain
            plain = []
        names = list(self.arguments)
        if names and known[names[-1]]["is_repeated"]:  # takes all that are left
            names += names[-1:] * (len(plain) - len(names))
        if len(plain) > len(names):
            self._refuse(f"unexpected argument {plain[-1]!r}", f"usage: {self.usage}")
        for name, value in zip(names, plain):
            self._put(given, known[name], value)
        return given

    def _option_of(self, name: str, known: Dict[str, Dict[str, Any]], others: Dict[str, Dict[str, Any]]) -> Optional[Dict[str, Any]]:
        """By its name here or in another tool."""
        if name not in known and name not in others:
            name = taken_for((self.name, self.passes_on), name)
        return known.get(name) or others.get(name)

    def _name_of_letter(self, letter: str, known: Dict[str, Dict[str, Any]], others: Dict[str, Dict[str, Any]], word: str) -> str:
        for row in list(known.values()) + list(others.values()):
            if row["letter"] == letter:
                return str(row["name"])
        self._refuse_unknown(word, list(known) + list(others))

    def _put(self, given: Given, row: Dict[str, Any], value: str) -> None:
        name = row["name"]
        if row["words"] and value not in row["words"]:
            self._refuse(f"--{name} is {value!r}, which is none of {', '.join(row['words'])}")
        if name in given.values and not row["is_repeated"]:
            self._refuse(f"--{name} is given twice: {given.get(name)!r} and {value!r}", "give it once")
        given.values.setdefault(name, []).append(value)

    def _refuse_unknown(self, word: str, known: List[str]) -> NoReturn:
        import difflib  # only where something is wrong
        typed = word.lstrip("-").partition("=")[0].replace("-", "_")
        near = difflib.get_close_matches(typed, known, 1)
        self._refuse(f"unknown option {word}", option_guess((self.name, self.passes_on), typed) or (f"did you mean --{near[0]}?" if near else ""))

    def _refuse(self, what: str, hint: str = "") -> NoReturn:
        raise Failed(USAGE, what, hint or f"shardweld {self.name} --help lists the options")


def _option_text(option: Option) -> str:
    name = (f"  -{option.letter}, " if option.letter else "      ") + f"--{option.name}" + (f" {option.value}" if option.value else "")
    lines = textwrap.wrap(option.help, _WIDTH - _NAME_COLUMN, break_long_words=False, break_on_hyphens=False) or [""]
    if len(name) < _NAME_COLUMN:
        lines[0] = name.ljust(_NAME_COLUMN) + lines[0]
    else:
        lines.insert(0, name)
    return ("\n" + " " * _NAME_COLUMN).join(lines) + "\n"


def say(text: str) -> None:
    """A line for the person, on standard error, without secrets; control characters are shown as "?"."""
    from .redact import without_secrets  # most runs say nothing
    print("".join(c if c in "\n\t" or c.isprintable() else "?" for c in without_secrets(text)), file=sys.stderr, flush=True)


def complain(failed: Failed) -> None:
    """An error as the program prints its own."""
    lines = [f"error: {failed.what}"]
    lines += [f"where: {failed.where}"] if failed.where else []
    lines += [f"hint: {failed.hint}"] if failed.hint else []
    lines += [f"see: shardweld help {failed.code}"] if failed.code != USAGE else []
    say("\n  ".join(lines))


# The program.

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
    """What the program prints for these words, parsed. Its own errors and code end this command, too."""
    done = run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0 and not done.stdout:
        sys.stderr.write(done.stderr)
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

"""What all commands share: how they start, their messages, and how they ask the program.

A command is a module with a line `COMMAND = Command(NAME, run)` and a description, descriptions/NAME.json, by which the program shows its help and
parses its command line. It starts the command as `shardweld-NAME --parsed` with what was given, each option as --NAME=VALUE.
"""
import errno
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence

from .text import fitted

# docs/using/errors.md
USAGE, NOT_FOUND, CORRUPT, UNSUPPORTED, MISMATCH, IO, SPACE, MEMORY, LAUNCH, STOPPED, TARGET, DIFFERS, STRICT, LOCKED, INCOMPLETE = range(2, 17)
NO_CLIENT, NO_TOKEN, NO_RIGHTS, NO_REPOSITORY, NO_NETWORK, INTERRUPTED = range(20, 26)
INTERNAL = 70


class Failed(Exception):
    """Ends the command with a documented exit code and one message: what is wrong, where ("" if `what` says it), and what to do."""

    def __init__(self, code: int, what: str, hint: str = "", where: str = "") -> None:
        super().__init__(what)
        self.code, self.what, self.hint, self.where = code, what, hint, where


@dataclass
class Given:
    """A command line as the program has parsed it. Values have the options' names, with "_"; numbers, sizes and times are plain numbers."""
    values: Dict[str, List[str]] = field(default_factory=dict)
    passed_on: List[str] = field(default_factory=list)  # words for the command whose options are taken, too

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str, default: str = "") -> str:
        return self.values[name][-1] if name in self.values else default

    def seconds(self, name: str) -> Optional[float]:
        return float(self.get(name)) if name in self else None

    def all(self, name: str) -> List[str]:
        return self.values.get(name, [])


class Command:
    """A command: `run` returns the exit code or raises Failed."""

    def __init__(self, name: str, run: Callable[[Given], int]) -> None:
        self.name, self.run = name, run

    def start(self, words: Sequence[str]) -> int:
        """Runs the command with parsed words; all errors become one message and their code. Started by itself it has the program parse them."""
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # names as the file system has them
        try:
            if words[:1] != ["--parsed"]:  # the program parses them, and starts the command again
                if "SHARDWELD_PROGRAM" in os.environ:  # it is another version, which would do the same again
                    raise Failed(LAUNCH, f"{program()} does not know the command {self.name}", "take the program with the libexec directory that it was installed with")
                os.execvp("shardweld", ["shardweld", *(["help", self.name, "--json"] if "--describe" in words else [self.name, *words])])
            values: Dict[str, List[str]] = {}
            for name, _, value in (word[2:].partition("=") for word in words[1:]):
                values.setdefault(name, []).append(value)
            code = self.run(Given(values, values.pop("passed_on", [])))
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
    rows = (("error", failed.what), ("where", failed.where), ("hint", failed.hint), ("see", f"shardweld help {failed.code}" if failed.code != USAGE else ""))
    say("\n  ".join(f"{name}: {text}" for name, text in rows if text))


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


def ask(words: Sequence[str]) -> Any:
    """What the program answers with --json. Failed with its own error."""
    done = run([*words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        told = json.loads(done.stdout)
    except ValueError:
        raise Failed(INTERNAL, f"{program()} {' '.join(words[:2])} did not print JSON", "take a program of the same version as this command") from None
    if done.returncode and "error" in told:
        raise Failed(told["error"]["code"], told["error"]["what"], told["error"]["hint"], "; ".join(told["error"]["where"]))
    return told


def refuse_checkpoint(directory: str) -> None:
    """For who expected a finished model: Failed(NOT_FOUND) where the directory holds a checkpoint that is still to be merged."""
    found = run(["inspect", directory, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if found.returncode == 0:
        raise Failed(NOT_FOUND, f"{directory} is a {json.loads(found.stdout)['format']} checkpoint, no finished model", "merge it first")

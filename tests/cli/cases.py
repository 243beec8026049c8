#!/usr/bin/env python3
"""Runs the rows of a table of tests/cases: cases.py SHARDWELD TESTS TABLE. Prints each check that fails; exits 1 if there is one.

A row is one run of the program over a copy of a checkpoint:

    CODE[xRANKS,..][~RANKS,..][@RANKS,..] | NAME | CHANGES | CHECKS | OPTIONS

CODE       the exit code. xRANKS: under mpirun, 0 without; of several each. ~: afterwards in other numbers of ranks with either strategy, to the
           same files. @: in one of these numbers with one of the strategies, in turn.
CHANGES    of a fresh copy of the checkpoint that `on` names, separated by `;`. A first `+`: of the copy as the row before left it. Nothing: that
           copy as it is. A name of tests/support/damage.py and its arguments, or one of case_changes.py; files may be patterns, below $iter.
CHECKS     texts of standard error, and `@NAME ARGUMENTS` of tests/support/case_checks.py, separated by `;`.
OPTIONS    of `merge`, besides source, target, config and those of `on`. `> WORDS`: another command with this target. `! WORDS`: another command line. `? WORDS`: one that is refused before
           anything is read. Behind `:` are those of a second rank alone. -v takes -q back.

A merge that is refused says one error line and leaves nothing; one that is not leaves a model and nothing beside it. Lines between the rows:

    let NAME = TEXT            $NAME stands for it; a later `let` wins
    on FIXTURE [OPTIONS]       a fresh copy of tests/data/FIXTURE, or of a directory
    do CHANGES                 of the copy
    with WORDS                 stand in front of every command from here on, as `env A=B`; nothing: no words any more
    for A B = x y, z w         the lines up to `end`, with $A and $B of each
    #                          a comment

$data, $W (a scratch directory), $T (that of temporary files), $copy, $source, $iter (where the shards are), $hf, $expected, $place, $target are known.
SHARDWELD_ALL_RANKS=1 runs every merge under mpirun, SHARDWELD_ALL_WAYS=1 each in all ways, SHARDWELD_SHOW=1 prints messages."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

TESTS = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
sys.path.insert(0, os.path.join(TESTS, "support"))
from case_changes import Changes
from case_checks import Checks, Failure, require, sums_of

ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_odls_base_sigkill_timeout": "0", "HF_HUB_OFFLINE": "1"}
PIECE = re.compile(r'(\s+)|([|;])|"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|([^\s|;"\']+)')
OWN = {"W", "T", "place", "copy"}
ESCAPED = {"n": "\n", "0": "\0"}


def unescaped(match):
    """\\n, \\0, \\xHH (a byte that is no text above 7f), and any other character for itself."""
    return bytes([int(match[1], 16)]).decode("utf-8", "surrogateescape") if match[1] else ESCAPED.get(match[2], match[2])


def expanded(text, names):
    def value(match):
        require(match[1] in names, f"${match[1]} is not known")
        return str(names[match[1]])
    return re.sub(r"\$\{?(\w+)\}?", value, text)


def words_of(line, names):
    """Cells of parts of words: split at | and ;. Quotes hold words together, '' also keep $; what a name outside of them stands for is split."""
    cells, word = [[[]]], None
    for space, mark, double, single, plain in PIECE.findall(line):
        if space or mark:
            if word is not None:
                cells[-1][-1].append(word)
            word = None
            if mark == "|":
                cells.append([[]])
            elif mark == ";":
                cells[-1].append([])
            continue
        piece = single or expanded(re.sub(r"\\x([0-9a-f]{2})|\\(.)", unescaped, double) if double else plain, names)
        *whole, piece = piece.split() if plain and " " in piece else [piece]
        for part in whole:
            cells[-1][-1].append((word or "") + part)
            word = None
        word = (word or "") + piece
    if word is not None:
        cells[-1][-1].append(word)
    return [[part for part in cell if part] for cell in cells]


class Table:
    def __init__(self, program, work):
        self.program, self.changes, self.checks = program, Changes(self), Checks(self)
        self.names = {"data": os.path.join(TESTS, "data"), "W": work, "place": os.path.join(work, "place"), "T": os.path.join(work, "T")}
        self.before, self.fixture, self.options, self.n_ways, self.n_rows, self.n_failed = [], "", [], 0, 0, 0

    def run(self, code, command, keep=True):
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=180, env={**os.environ, **ENVIRONMENT, "TMPDIR": self.names["T"]})
        out, err = (text.decode(errors="replace") for text in (ended.stdout, ended.stderr))
        if keep:
            self.out, self.err = out, err
        require(ended.returncode == code, f"exit code {ended.returncode}, expected {code}: {' '.join(command)}\n    " + "\n    ".join((err or out).splitlines()[:5]))

    def fresh(self):
        """A new copy of the fixture."""
        copy = os.path.join(self.names["W"], "copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(os.path.join(self.names["data"], self.fixture), copy)
        source = os.path.join(copy, "source") if os.path.isdir(os.path.join(copy, "source")) else copy
        below = sorted(folder for folder, _, _ in os.walk(source) if re.match(r"iter_|dist_ckpt$", os.path.basename(folder)))
        hf = os.path.join(copy, "hf")
        self.config = ["--hf_config", hf] if os.path.isdir(hf) else []
        configs = [folder for folder, _, files in os.walk(source) if "config.json" in files and not self.config]
        self.names.update(copy=copy, source=source, iter=below[0] if below else source, hf=configs[0] if configs else hf,
                          expected=os.path.join(copy, "expected"), target=os.path.join(self.names["place"], "model"))
        self.empty_place()

    def empty_place(self):
        shutil.rmtree(self.names["place"], ignore_errors=True)
        os.mkdir(self.names["place"])

    def line(self, text):
        word, _, rest = text.partition(" ")
        if word == "let":
            name, _, value = rest.partition("=")
            require(name.strip() not in OWN, f"${name.strip()} is the table's own")  # some of them are removed with all that is in them
            self.names[name.strip()] = " ".join(words_of(value, self.names)[0][0]) if value.strip() else ""
        elif word == "on":
            [[[self.fixture, *self.options]]] = words_of(rest, self.names)
            self.fresh()
        elif word == "with":
            self.before = words_of(rest, self.names)[0][0] if rest else []
        elif word == "do":
            self.changes.do(words_of(rest, self.names)[0])
        else:
            self.row(text)

    def row(self, text):
        cells = text.split("|", 2)
        self.n_rows += 1
        try:
            require(len(cells) > 1, f"no row: {text}")
            rest = cells[2] if len(cells) > 2 else ""
            first = rest.partition("|")[0].strip()
            if first and not first.startswith("+"):
                self.fresh()
            changes, checks, options = (words_of(rest, self.names) + [[], [], []])[:3]
            if changes and changes[0][0] == "+":
                changes[0] = changes[0][1:]
            self.changes.do([part for part in changes if part and part != ["."]])
            # What a change has made may be named by a check.
            self.take(expanded(cells[0].strip(), self.names), checks, [word for part in options for word in part])
        except Exception as failure:  # a change that cannot be made, too
            self.n_failed += 1
            print(f"FAILED: {expanded(cells[1].strip(), self.names) if len(cells) > 1 else text}: {failure if isinstance(failure, Failure) else repr(failure)}", flush=True)

    def launched(self, ranks, arguments):
        if ":" in arguments:
            at = arguments.index(":")
            first = ["-n", "1", self.program, *arguments[:at]]
            return [*self.before, "mpirun", *first, ":", *first, *arguments[at + 1:]]
        ranks = ranks or (3 if os.environ.get("SHARDWELD_ALL_RANKS") else 0)
        return [*self.before, *(["mpirun", "-n", str(ranks)] if ranks else []), self.program, *arguments]

    def merging(self, options):
        if options[:1] == [">"]:
            return [*options[1:], "--target_dir", self.names["target"], *([] if "-v" in options else ["-q"])]
        options = [*self.options, *options]
        if "--hf_config" in options:
            at = options.index("--hf_config")
            config, options = (options[at:at + 2] if options[at + 1] else []), options[:at] + options[at + 2:]
        else:
            config = self.config
        source = [] if "--local_dir" in options else ["--local_dir", self.names["source"]]
        return ["merge", *source, "--target_dir", self.names["target"], *config, *([] if "-v" in options else ["-q"]), *options]

    def take(self, way, checks, options):
        code, several, others, turns = re.fullmatch(r"(\d+)(?:x([\d,]+))?(?:~([\d,]+))?(?:@([\d,]+))?", way).groups()
        for ranks, strategy in self.ways(turns):
            self.once(int(code), ranks, checks, [*options, "--strategy", strategy])
        for ranks in "" if turns else (several or "0").split(","):
            self.once(int(code), int(ranks), checks, options)
        for ranks, strategy in self.ways(others):
            self.again(ranks, strategy, options)

    def once(self, code, ranks, checks, options):
        is_merge = options[:1] not in (["!"], ["?"])
        if is_merge:
            self.empty_place()
            for option, path in zip([*self.options, *options], [*self.options, *options][1:]):
                if option == "--report" and os.path.isfile(path):
                    os.remove(path)  # of another model
        begin = time.monotonic()
        self.run(code, self.launched(ranks, self.merging(options) if is_merge else options[1:]))
        if os.environ.get("SHARDWELD_SHOW"):
            print(self.err)
        left = os.listdir(self.names["place"])
        if options[:1] == ["?"] or is_merge and code:
            n_lines = len(re.findall("^error:", self.err, re.M))
            require(n_lines == 1, f"{n_lines} error lines: {self.err[:600]}")
            require(time.monotonic() - begin < 60, "took more than a minute")
            require(not self.out or is_merge, f"writes to standard output: {self.out[:300]}")
            require(not is_merge or left == [".model.shardweld-partial"] * (["@partial"] in checks), f"left {left}")
        elif is_merge:
            inside = os.path.relpath(self.names["target"], self.names["place"]).split("/")[0]
            require(inside == ".." or left == [inside], f"left {left}")
            require(os.path.exists(self.checks.path("lora_adapter")) or options[:1] == [">"] or os.path.getsize(self.checks.path("config.json")), "no model")
        self.checks.do(checks)

    def ways(self, others):
        """All, or one in turn, so that the rows of a table together take all: starting ranks is most of what a small merge costs."""
        ways = [(int(ranks), strategy) for ranks in (others or "").split(",") if ranks for strategy in ("collective", "direct")]
        if not ways or os.environ.get("SHARDWELD_ALL_WAYS"):
            return ways
        self.n_ways += 1
        return [ways[(self.n_ways - 1) % len(ways)]]

    def again(self, ranks, strategy, options):
        wanted, report = sums_of(self.names["target"]), os.path.join(self.names["W"], "report.json")
        self.empty_place()
        self.run(0, self.launched(ranks, self.merging([*options, "--strategy", strategy, "--report", report])), keep=False)
        require(sums_of(self.names["target"]) == wanted, f"other files with {ranks} ranks, {strategy}")
        with open(report, encoding="utf-8") as file:
            told = json.load(file)
        sent = sum(phase["bytes_sent"] for phase in told["phases"] if phase["name"] == "execute")
        require(told["plan"]["strategy"] == strategy, f"{ranks} ranks, {strategy}: the strategy was {told['plan']['strategy']}")
        require((sent > 0) == (strategy == "collective"), f"{ranks} ranks, {strategy}: {sent} bytes sent")


def unrolled(lines):
    """The lines with each `for` written out, each with what its names stand for."""
    found, at = [], 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.startswith("for "):
            found.append(line)
            continue
        end = lines.index("end", at)
        names, _, values = line[4:].partition("=")
        for group in re.split(r",\s", values):
            values_of = words_of(group.replace("$", "\1"), {})[0][0]
            if len(values_of) != len(names.split()):
                sys.exit(f"{line}: {group} does not fit")
            found += [f"let {name} = {value}".replace("\1", "$") for name, value in zip(names.split(), values_of)]
            found += lines[at:end]
        at = end + 1
    return found


def main():
    program, _, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in re.sub(r"\\\n\s*", "", file.read()).splitlines()]
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        table = Table(os.path.realpath(program), work)
        os.mkdir(table.names["place"])
        os.mkdir(table.names["T"])
        for line in unrolled([line for line in lines if line and not line.startswith("#")]):
            table.line(line)
    print(f"{table.n_rows} rows, {table.n_failed} failed")
    sys.exit(table.n_failed > 0 or table.n_rows == 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs the rows of a table of tests/cases: cases.py SHARDWELD TESTS TABLE. Prints each check that fails; exits 1 if there is one.

A row is one run of the program over a copy of a checkpoint:

    CODE[xRANKS,..][~RANKS,..][@RANKS,..] | NAME | CHANGES | CHECKS | OPTIONS

CODE       the exit code. xRANKS: under mpirun, 0 without; of several each. ~: afterwards in other numbers of ranks with either strategy, to the
           same files. @: in one of these numbers with one of the strategies, in turn.
CHANGES    of a fresh copy of the checkpoint that `on` names, separated by `;`. A first `+`: of the copy as the row before left it. Nothing: that
           copy as it is. A name of tests/support/damage.py and its arguments, or one of Changes below; files may be patterns, below $iter.
CHECKS     texts of standard error, and `@NAME ARGUMENTS` of Checks below, separated by `;`.
OPTIONS    of `merge`, besides source, target, config and those of `on`. `! WORDS`: another command line. `? WORDS`: one that is refused before
           anything is read. Behind `:` are those of a second rank alone. -v takes -q back.

A merge that is refused says one error line and leaves nothing; one that is not leaves a model and nothing beside it. Lines between the rows:

    let NAME = TEXT            $NAME stands for it; a later `let` wins
    on FIXTURE [OPTIONS]       a fresh copy of tests/data/FIXTURE, or of a directory
    do CHANGES                 of the copy
    for A B = x y, z w         the lines up to `end`, with $A and $B of each
    #                          a comment

$data, $W (a scratch directory), $T (that of temporary files), $copy, $source, $iter (where the shards are), $hf, $expected, $place, $target are known.
SHARDWELD_ALL_RANKS=1 runs every merge under mpirun, SHARDWELD_ALL_WAYS=1 each in all ways, SHARDWELD_SHOW=1 prints messages."""
import glob
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

TESTS = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
sys.path.insert(0, os.path.join(TESTS, "support"))
import damage
import edit_safetensors

ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_odls_base_sigkill_timeout": "0", "HF_HUB_OFFLINE": "1"}
PIECE = re.compile(r'(\s+)|([|;])|"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|([^\s|;"\']+)')
ESCAPED = {"n": "\n", "0": "\0"}


class Failure(Exception):
    """A check that is not met."""


def require(condition, text):
    if not condition:
        raise Failure(text)


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
        piece = single or expanded(re.sub(r"\\(.)", lambda m: ESCAPED.get(m[1], m[1]), double) if double else plain, names)
        *whole, piece = piece.split() if plain and " " in piece else [piece]
        for part in whole:
            cells[-1][-1].append((word or "") + part)
            word = None
        word = (word or "") + piece
    if word is not None:
        cells[-1][-1].append(word)
    return [[part for part in cell if part] for cell in cells]


def json_at(value, path):
    """What lies at A/B/C; of a list the element of this number, whose "name" this is, or FIELD:VALUE; `*`: of all elements what follows."""
    keys = path.split("/")
    for number, key in enumerate(keys, 1):
        if isinstance(value, list) and key == "*":
            return [json_at(one, "/".join(keys[number:])) if keys[number:] else one for one in value]
        if isinstance(value, list):
            field, _, wanted = key.rpartition(":")
            value = value[int(key)] if key.isdigit() else next(one for one in value if one.get(field or "name") == wanted)
        else:
            value = value[key]
    return value


def put_json(content, path, value):
    *above, last = path.split("/")
    inside = json_at(content, "/".join(above)) if above else content
    last = int(last) if isinstance(inside, list) else last
    if value:
        inside[last] = json.loads(value)
    elif last in inside:
        del inside[last]


def names_in(model):
    """Names of a directory's tensors, or of one file's."""
    files = [model] if os.path.isfile(model) else glob.glob(os.path.join(model, "*.safetensors"))
    require(files, f"{model} has no .safetensors file")
    return sorted(name for file in files for name in edit_safetensors.read(file))


def sums_of(directory):
    """CRCs of all files but the report, which has times."""
    return {str(path.relative_to(directory)): zlib.crc32(path.read_bytes()) for path in sorted(pathlib.Path(directory).rglob("*"))
            if path.is_file() and path.name != "shardweld_report.json"}


class Changes:
    """What is done to a copy."""

    def __init__(self, table):
        self.table = table

    def path(self, name):
        return os.path.join(self.table.names["iter"], name)

    def paths(self, name):
        found = sorted(glob.glob(self.path(name)))
        require(found, f"no file is {name}")
        return found

    def rm(self, *names):
        for path in (path for name in names for path in self.paths(name)):
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)

    def mv(self, name, to):
        for path in self.paths(name):
            shutil.move(path, self.path(to))

    def cp(self, name, to):
        for path in self.paths(name):
            into = self.path(to)
            if os.path.isdir(path):
                shutil.copytree(path, into, dirs_exist_ok=True)
            else:
                shutil.copy(path, into)

    def mkdir(self, *names):
        for name in names:
            os.makedirs(self.path(name))

    def ln(self, to, name):
        os.symlink(to, self.path(name))

    def truncate(self, name, size):
        """To a size; a negative one is taken from the end."""
        os.truncate(self.path(name), int(size) + (os.path.getsize(self.path(name)) if int(size) < 0 else 0))

    def write(self, name, text, times="1"):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        pathlib.Path(self.path(name)).write_bytes(text.encode("utf-8", "surrogateescape") * int(times))

    def append(self, name, text):
        with open(self.path(name), "ab") as file:
            file.write(text.encode())

    def prepend(self, name, text):
        path = pathlib.Path(self.path(name))
        path.write_bytes(text.encode() + path.read_bytes())

    def sub(self, name, pattern, new):
        """The regular expression must match in each of the files."""
        for path in map(pathlib.Path, self.paths(name)):
            text, n_found = re.subn(pattern.encode("latin-1"), new.encode(), path.read_bytes())
            require(n_found, f"nothing is {pattern} in {path}")
            path.write_bytes(text)

    def set(self, name, *fields):
        """FIELD=JSON in a file of JSON; FIELD= removes it. `/` leads into parts."""
        for path in map(pathlib.Path, self.paths(name)):
            content = json.loads(path.read_text(encoding="utf-8"))
            for field in fields:
                where, _, value = field.partition("=")
                put_json(content, where, value)
            path.write_text(json.dumps(content), encoding="utf-8")

    def config(self, *fields):
        self.set(os.path.join(self.table.names["hf"], "config.json"), *fields)

    def wrap(self, kind):
        """config.json becomes the language model's part of another one."""
        path = pathlib.Path(self.path(self.table.names["hf"]), "config.json")
        path.write_text(json.dumps({"model_type": kind, "text_config": json.loads(path.read_text())}))

    def edit(self, name, action, *arguments):
        """Of tests/support/edit_safetensors.py."""
        for path in glob.glob(self.path(name)) or [self.path(name)]:
            tensors = edit_safetensors.read(path)
            edit_safetensors.edit(tensors, action, arguments)
            edit_safetensors.write(path, tensors)

    def header(self, name, *edits):
        """Of a .safetensors file, without care for what follows: FIELD=JSON, +FIELD=JSON once more behind the others, `data` N: bytes more or less."""
        path = pathlib.Path(self.path(name))
        blob = path.read_bytes()
        end = 8 + int.from_bytes(blob[:8], "little")
        fields, data = json.loads(blob[8:end]), blob[end:]
        again = ""
        for edit in edits:
            where, _, value = edit.partition("=")
            if where == "data":
                data = data + b"1234567890"[:int(value)] if int(value) > 0 else data[:int(value)]
            elif where.startswith("+"):
                again += f", {json.dumps(where[1:])}: {value}"
            else:
                put_json(fields, where, value)
        text = (json.dumps(fields)[:-1] + again + "}").encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data)

    def tokenizer(self):
        """A file of it beside each config.json: most fixtures have none, and --strict counts that."""
        for path in pathlib.Path(self.table.names["copy"]).rglob("config.json"):
            path.with_name("tokenizer.model").touch()

    def tool(self, name, *arguments):
        """A program of tests/support."""
        self.table.run(0, [sys.executable, os.path.join(TESTS, "support", name + ".py"), *arguments])

    def run(self, *arguments):
        """The program, which succeeds."""
        self.table.run(0, [self.table.program, *arguments])

    def do(self, parts):
        for name, *arguments in parts:
            own = getattr(self, name, None) if name not in ("do", "path", "paths", "table") else None
            if own:
                own(*arguments)
            else:
                for path in self.paths(arguments[0]):
                    getattr(damage, name)(path, *arguments[1:])


class Checks:
    """What holds after a run. Paths are below the target."""

    def __init__(self, table):
        self.table = table

    def path(self, name):
        return os.path.join(self.table.names["target"], name)

    def same(self, name, expected):
        """Models with the same tensors, bit by bit."""
        self.table.run(0, [sys.executable, os.path.join(TESTS, "support/compare_safetensors.py"), self.path(name), expected], keep=False)

    def tool(self, program, name, *arguments):
        """A program of tests/support with a file of the target and arguments."""
        self.table.run(0, [sys.executable, os.path.join(TESTS, "support", program + ".py"), self.path(name), *arguments], keep=False)

    def near(self, name, expected, size="1e-6"):
        self.table.run(0, [self.table.program, "diff", self.path(name), expected, "--atol", size, "--rtol", size], keep=False)

    def differs(self, name, expected, size="1e-3"):
        self.table.run(13, [self.table.program, "diff", self.path(name), expected, "--atol", size, "--rtol", size], keep=False)

    def alike(self, name, other, *fields):
        """JSON, or these fields of it; `~` behind one keeps the order of a list open."""
        got, wanted = (json.loads(pathlib.Path(self.path(one)).read_text(encoding="utf-8")) for one in (name, other))
        of = lambda content: {field: sorted(content[field[:-1]]) if field.endswith("~") else content.get(field) for field in fields} if fields else content
        require(of(got) == of(wanted), f"{name} is not {other}: {of(got)}")

    def files(self, name, other):
        """The same files, the report apart."""
        require(sums_of(self.path(name)) == sums_of(self.path(other)), f"{name} has other files than {other}")

    def distances(self, report):
        """Of codes, as diff --json tells them of two models: those of the first are what its report says."""
        wanted = {t["name"].replace("weight_packed", "weight"): t["quantised"] for t in json.loads(pathlib.Path(report).read_text())["tensors"] if "quantised" in t}
        parts, other = json.loads(self.table.out)["models"]
        require({t["name"] for t in parts["tensors"]} == set(wanted) == {t["name"] for t in other["tensors"]}, "other tensors")
        for tensor in parts["tensors"]:
            told, again = wanted[tensor["name"]], tensor["quantised"]
            require(math.isclose(told.pop("relative_error"), again.pop("relative_error"), rel_tol=1e-12) and told == again, f"{told} is not {again}")
        require({t["quantised"]["encoding"] for t in other["tensors"]} == {"fp8-block"} and parts["n_same_bits"] == parts["n_others"] > 0, "other encodings")

    def listed_twice(self, name, begin):
        """What a quantised model keeps of a tower, by the name that the Hub has and by that of the tree of modules."""
        ignored = json.loads(pathlib.Path(self.path(name)).read_text())["quantization_config"]["ignore"]
        hub = [module for module in ignored if module.startswith(begin)]
        require(hub and all(f"model.{module}" in ignored for module in hub) and "lm_head" in ignored and len(ignored) == len(set(ignored)), ignored)

    def equal(self, name, other):
        """The same bytes."""
        require(pathlib.Path(self.path(name)).read_bytes() == pathlib.Path(self.path(other)).read_bytes(), f"{name} is not {other}")

    def json(self, name, where):
        """FIELD=JSON in a file of JSON; without JSON it is not there. `/` leads into parts, `~` keeps the order of a list open."""
        self.has_json(name, json.loads(pathlib.Path(self.path(name)).read_text(encoding="utf-8")), where)

    def told(self, where):
        """The same of standard output."""
        self.has_json("standard output", json.loads(self.table.out), where)

    def has_json(self, name, content, where):
        where, _, value = where.partition("=")
        try:
            found = json_at(content, where.rstrip("~"))
        except (KeyError, IndexError, StopIteration):
            found = None
            require(not value, f"{name} has no {where}")
        found = sorted(found) if where.endswith("~") else found
        wanted = json.loads(value) if value else None
        require(found == wanted or json.dumps(found) == json.dumps(wanted), f"{name}: {where} is {json.dumps(found)}, expected {value or 'nothing'}")

    def between(self, name, where, low, high):
        found = json_at(json.loads(pathlib.Path(self.path(name)).read_text(encoding="utf-8")), where)
        require(float(low) < found < float(high), f"{name}: {where} is {found}")

    def no(self, *names):
        for name in names:
            require(not os.path.lexists(self.path(name)) and not glob.glob(self.path(name)), f"{name} is there")

    def holds(self, *names):
        for name in names:
            require(os.path.exists(self.path(name)), f"{name} is not there")

    def has(self, name, *tensors):
        require(set(tensors) <= set(names_in(self.path(name))), f"{name} lacks one of {tensors}")

    def count(self, name, n_tensors):
        require(len(names_in(self.path(name))) == int(n_tensors), f"{name} has {len(names_in(self.path(name)))} tensors")

    def lacks(self, name, *tensors):
        require(not set(tensors) & set(names_in(self.path(name))), f"{name} has one of {tensors}")

    def named(self, name, pattern):
        others = [tensor for tensor in names_in(self.path(name)) if not re.match(pattern, tensor)]
        require(not others, f"{name}: {others[:3]} are not {pattern}")

    def silent(self, *texts):
        for text in texts:
            require(text not in self.table.err, f"says {text!r}")

    def out(self, *texts):
        for text in texts:
            require(text in self.table.out, f"no {text!r} in standard output: {self.table.out[:600]}")

    def text(self, name, *texts):
        found = pathlib.Path(self.path(name)).read_text(encoding="utf-8")
        for text in texts:
            require(text in found, f"{name} has no {text!r}")

    def lacks_text(self, name, *texts):
        found = pathlib.Path(self.path(name)).read_text(encoding="utf-8")
        for text in texts:
            require(text not in found, f"{name} has {text!r}")

    def same_out(self, name):
        """The standard output of the first run of this name."""
        path = pathlib.Path(self.table.names["W"], f"out-{name}")
        if not path.exists():
            path.write_text(self.table.out)
        require(path.read_text() == self.table.out, f"another result: {self.table.out[:600]}")

    def line(self, pattern):
        require(re.search(pattern, self.table.out, re.M), f"no line is {pattern}: {self.table.out[:600]}")

    def other(self, name, other):
        require(pathlib.Path(self.path(name)).read_bytes() != pathlib.Path(self.path(other)).read_bytes(), f"{name} is {other}")

    def keep(self, name):
        """The target is $W/NAME from now on, and the source of what follows."""
        kept = os.path.join(self.table.names["W"], name)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.move(self.table.names["target"], kept)

    def same_as_first(self, name):
        """The same tensors as of the first model of this name."""
        first = os.path.join(self.table.names["W"], name)
        if os.path.exists(first):
            self.same(".", first)
        else:
            shutil.copytree(self.table.names["target"], first)

    def keep_copy(self, name, other):
        shutil.copytree(os.path.join(self.table.names["W"], name), os.path.join(self.table.names["W"], other))

    def dtypes(self, name, *dtypes):
        require({tensor[0] for tensor in edit_safetensors.read(self.path(name)).values()} == set(dtypes), f"{name} has other dtypes")

    def loads(self, program, modules, requirement, *arguments):
        """A program of tests/support in a Python that has the modules, $SHARDWELD_PYTHON or python3; skipped loudly without, a failure where
        SHARDWELD_REQUIRE lists it."""
        python = os.environ.get("SHARDWELD_PYTHON", "python3")
        if subprocess.run([python, "-c", "import " + modules], capture_output=True).returncode:
            print(f"SKIPPED: {python} has not all of {modules}")
            require(requirement not in os.environ.get("SHARDWELD_REQUIRE", "").split(","), f"{requirement} is required")
        else:
            self.table.run(0, [python, os.path.join(TESTS, "support", program + ".py"), *map(self.path, arguments[:-1]), arguments[-1]], keep=False)

    def partial(self):
        """What was written is kept for a run that goes on, and nothing else."""

    def adapter(self):
        """An adapter alone."""
        require(not os.path.exists(self.path("config.json")) and os.path.exists(self.path("lora_adapter/adapter_config.json")), "no adapter alone")

    def do(self, parts):
        for name, *arguments in parts:
            if name.startswith("@"):
                getattr(self, name[1:])(*arguments)
            else:
                for text in (name, *arguments):
                    require(text in self.table.err, f"no {text!r} in: {self.table.err[:600]}")


class Table:
    def __init__(self, program, work):
        self.program, self.changes, self.checks = program, Changes(self), Checks(self)
        self.names = {"data": os.path.join(TESTS, "data"), "W": work, "place": os.path.join(work, "place"), "T": os.path.join(work, "T")}
        self.fixture, self.options, self.n_ways, self.n_rows, self.n_failed = "", [], 0, 0, 0

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
            self.names[name.strip()] = " ".join(words_of(value, self.names)[0][0]) if value.strip() else ""
        elif word == "on":
            [[[self.fixture, *self.options]]] = words_of(rest, self.names)
            self.fresh()
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
            self.take(cells[0].strip(), checks, [word for part in options for word in part])
        except Exception as failure:  # a change that cannot be made, too
            self.n_failed += 1
            print(f"FAILED: {expanded(cells[1].strip(), self.names) if len(cells) > 1 else text}: {failure if isinstance(failure, Failure) else repr(failure)}", flush=True)

    def launched(self, ranks, arguments):
        if ":" in arguments:
            at = arguments.index(":")
            first = ["-n", "1", self.program, *arguments[:at]]
            return ["mpirun", *first, ":", *first, *arguments[at + 1:]]
        ranks = ranks or (3 if os.environ.get("SHARDWELD_ALL_RANKS") else 0)
        return [*(["mpirun", "-n", str(ranks)] if ranks else []), self.program, *arguments]

    def merging(self, options):
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
            require(["@adapter"] in checks or os.path.getsize(self.checks.path("config.json")), "no model")
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
            taken = json.load(file)["plan"]["strategy"]
        require(taken == strategy, f"{ranks} ranks, {strategy}: the strategy was {taken}")


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
        for group in values.split(","):
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

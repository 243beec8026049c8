"""What the rows of tests/cases hold after a run of the program, and how values in files are found."""
import glob
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import zlib

import edit_safetensors

SUPPORT = os.path.dirname(os.path.realpath(__file__))


class Failure(Exception):
    """A check that is not met."""


def require(condition, text):
    if not condition:
        raise Failure(text)


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


class Checks:
    """What holds after a run. Paths are below the target."""

    def __init__(self, table):
        self.table = table

    def path(self, name):
        return os.path.join(self.table.names["target"], name)

    def same(self, name, expected):
        """Models with the same tensors, bit by bit."""
        self.table.run(0, [sys.executable, os.path.join(SUPPORT, "compare_safetensors.py"), self.path(name), expected], keep=False)

    def tool(self, program, name, *arguments):
        """A program of tests/support with a file of the target and arguments."""
        self.table.run(0, [sys.executable, os.path.join(SUPPORT, program + ".py"), self.path(name), *arguments], keep=False)

    def same_states(self, expected):
        """Weights, masters and moments bit by bit; step, settings and what decays."""
        self.same("model.safetensors", os.path.join(expected, "model.safetensors"))
        for state in ("param", "exp_avg", "exp_avg_sq"):
            self.same(f"optimizer/{state}.safetensors", os.path.join(expected, f"{state}.safetensors"))
        told, wanted = (json.loads(pathlib.Path(path).read_text()) for path in (self.path("optimizer/optimizer.json"), os.path.join(expected, "optimizer.json")))
        groups = {frozenset(group.get("params", [])): group["weight_decay"] for group in told["groups"]}
        require(told["step"] == wanted["step"] and all(group[name] == wanted[name] for group in told["groups"] for name in ("lr", "betas")), told)
        require(all(groups.get(frozenset(group["params"])) == group["weight_decay"] for group in wanted.get("groups", [])), groups)

    def near(self, name, expected, size="1e-6"):
        self.table.run(0, [self.table.program, "diff", self.path(name), expected, "--atol", size, "--rtol", size], keep=False)

    def differs(self, name, expected, size="1e-3"):
        self.table.run(13, [self.table.program, "diff", self.path(name), expected, "--atol", size, "--rtol", size], keep=False)

    def alike(self, name, other, *fields):
        """JSON, or these fields of it; `~` behind one keeps the order of a list open."""
        got, wanted = (json.loads(pathlib.Path(self.path(one)).read_text(encoding="utf-8")) for one in (name, other))
        of = lambda content: {field: sorted(content[field[:-1]]) if field.endswith("~") else content.get(field) for field in fields} if fields else content
        require(of(got) == of(wanted), f"{name} is not {other}: {of(got)}")

    def same_model(self, expected):
        """The model's file, beside which others lie."""
        alone = os.path.join(self.table.names["W"], "alone")
        shutil.rmtree(alone, ignore_errors=True)
        os.mkdir(alone)
        shutil.copy(self.path("model.safetensors"), alone)
        self.same(alone, expected)

    def files(self, name, other, *apart):
        """The same files, the report and these files and folders apart."""
        got, wanted = ({file: crc for file, crc in sums_of(self.path(one)).items() if not set(file.split("/")) & set(apart)} for one in (name, other))
        require(got == wanted, f"{name} has other files than {other}")

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

    def told_only(self, where, *values):
        found = json_at(json.loads(self.table.out), where)
        require(set(found) == set(values), f"standard output: {where} is {sorted(set(found))}")

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

    def length(self, name, where, count):
        found = json_at(json.loads(pathlib.Path(self.path(name)).read_text(encoding="utf-8")), where)
        require(len(found) == int(count), f"{name}: {where} has {len(found)}")

    def each(self, name, where, pattern):
        found = json_at(json.loads(pathlib.Path(self.path(name)).read_text(encoding="utf-8")), where)
        require(found and all(re.match(pattern, one) for one in found), f"{name}: {where} is {found}")

    def summed(self, report, name):
        """The report has this file's SHA-256."""
        self.text(report, hashlib.sha256(pathlib.Path(self.path(name)).read_bytes()).hexdigest())

    def between(self, name, where, low, high):
        found = json_at(json.loads(pathlib.Path(self.path(name)).read_text(encoding="utf-8")), where)
        require(float(low) < found < float(high), f"{name}: {where} is {found}")

    def no(self, *names):
        for name in names:
            require(not os.path.lexists(self.path(name)) and not glob.glob(self.path(name)), f"{name} is there")

    def only(self, name, *files):
        require(sorted(os.listdir(self.path(name))) == sorted(files), f"{name} holds {os.listdir(self.path(name))}")

    def fifo(self, name):
        require(stat.S_ISFIFO(os.lstat(self.path(name)).st_mode), f"{name} is no FIFO")

    def link(self, name):
        require(os.path.islink(self.path(name)), f"{name} is no link")

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

    def printable(self):
        require(not re.search("[\x01-\x08\x0b-\x1f\x7f]", self.table.err), f"prints control characters: {self.table.err!r}")

    def out(self, *texts):
        for text in texts:
            require(text in self.table.out, f"no {text!r} in standard output: {self.table.out[:600]}")

    def out_of(self, text, report, where):
        """Standard output has this text and, behind it, what a file of JSON says."""
        self.out(text + str(json_at(json.loads(pathlib.Path(self.path(report)).read_text(encoding="utf-8")), where)))

    def verified(self, *names):
        """By the program, with the report that stands in the directory or behind `=`."""
        for name, _, report in (name.partition("=") for name in names):
            self.table.run(0, [self.table.program, "verify", self.path(name), "-q", *(["--report", report] if report else [])], keep=False)

    def same_reads(self, *reports):
        """Bytes of tensors that all ranks have read."""
        told = [json.loads(pathlib.Path(self.path(report)).read_text(encoding="utf-8")) for report in reports]
        read = [sum(phase["bytes_read"] for phase in one["phases"] if phase["name"] == "execute") for one in told]
        require(len(set(read)) == 1, f"{reports} tell of {read} bytes read")

    def flips(self, name, *patterns):
        """verify finds one bit that is changed in the middle of a file or at its end."""
        folder = pathlib.Path(self.path(name))
        files = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
        require(files, f"no file of {name} is {patterns}")
        for path in files:
            kept = path.read_bytes()
            for at in (len(kept) // 2, len(kept) - 1):
                path.write_bytes(kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1:])
                code = subprocess.run([self.table.program, "verify", folder], capture_output=True).returncode
                require(code in (4, 13), f"{path} with a changed byte at {at}: verify ends with {code}")
            path.write_bytes(kept)

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

    def no_line(self, pattern):
        require(not re.search(pattern, self.table.out, re.M), f"a line is {pattern}")

    def other(self, name, other):
        require(pathlib.Path(self.path(name)).read_bytes() != pathlib.Path(self.path(other)).read_bytes(), f"{name} is {other}")

    def keep(self, name):
        """It becomes $W/NAME, for the rows that follow."""
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

    def base_too(self):
        """The base, where the checkpoint holds one."""
        base = os.path.join(self.table.names["expected"], "base")
        if os.path.exists(base):
            self.same(".", base)

    def keep_copy(self, name, other):
        shutil.copytree(os.path.join(self.table.names["W"], name), os.path.join(self.table.names["W"], other))

    def dtypes(self, name, *dtypes):
        require({tensor[0] for tensor in edit_safetensors.read(self.path(name)).values()} == set(dtypes), f"{name} has other dtypes")

    def of_dtype(self, name, dtype, *tensors):
        """These tensors alone have it."""
        found = [tensor for tensor, (own, _, _) in edit_safetensors.read(self.path(name)).items() if own == dtype]
        require(sorted(found) == sorted(tensors), f"{name} has {dtype} in {found}")

    def loads(self, program, modules, requirement, *arguments):
        """A program of tests/support in a Python that has the modules, $SHARDWELD_PYTHON or python3; skipped loudly without, a failure where
        SHARDWELD_REQUIRE lists it."""
        python = os.environ.get("SHARDWELD_PYTHON", "python3")
        if subprocess.run([python, "-c", "import " + modules], capture_output=True).returncode:
            print(f"SKIPPED: {python} has not all of {modules}")
            require(requirement not in os.environ.get("SHARDWELD_REQUIRE", "").split(","), f"{requirement} is required")
        else:
            self.table.run(0, [python, os.path.join(SUPPORT, program + ".py"), *map(self.path, arguments[:-1]), arguments[-1]], keep=False)

    def generation(self):
        """generation_config.json has what config.json says, and something of it."""
        made, config = (json.loads(pathlib.Path(self.path(name)).read_text()) for name in ("generation_config.json", "config.json"))
        made.pop("_from_model_config")
        require(made and all(config.get(key, False) == value for key, value in made.items()), f"generation_config.json: {made}")

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

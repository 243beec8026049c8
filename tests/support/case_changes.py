"""What the rows of tests/cases do to a copy of a checkpoint before a run of the program; tests/support/damage.py has more."""
import array
import glob
import hashlib
import json
import os
import pathlib
import re
import shutil
import socket
import sys

import damage
import edit_safetensors
from case_checks import SUPPORT, put_json, require


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
        if os.path.lexists(self.path(name)):
            os.remove(self.path(name))
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        os.symlink(to, self.path(name))

    def special(self, kind, name):
        """A fifo, socket, device, terminal, directory or circle (a link to itself) in the place of a file."""
        path = self.path(name)
        if os.path.lexists(path):
            os.remove(path)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "socket":
            folder = os.open(os.path.dirname(path), os.O_RDONLY)  # their names are short
            socket.socket(socket.AF_UNIX).bind(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            os.close(folder)
        elif kind == "directory":
            os.mkdir(path)
        else:
            os.symlink({"device": "/dev/zero", "terminal": "/dev/tty", "circle": os.path.basename(path)}[kind], path)

    def aside(self, name, to):
        """Moves it and leaves a link to its new place."""
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.move(self.path(name), to)
        os.symlink(to, self.path(name))

    def truncate(self, name, size):
        """To a size; a negative one is taken from the end."""
        for path in self.paths(name):
            os.truncate(path, int(size) + (os.path.getsize(path) if int(size) < 0 else 0))

    def write(self, name, text, times="1"):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        pathlib.Path(self.path(name)).write_bytes(text.encode("utf-8", "surrogateescape") * int(times))

    def append(self, name, text):
        with open(self.path(name), "ab") as file:
            file.write(text.encode())

    def prepend(self, name, text):
        path = pathlib.Path(self.path(name))
        path.write_bytes(text.encode() + path.read_bytes())

    def put(self, name, at, value):
        """Bytes in hex; a place below zero is counted from the end."""
        with open(self.path(name), "r+b") as file:
            file.seek(int(at), os.SEEK_END if int(at) < 0 else os.SEEK_SET)
            file.write(bytes.fromhex(value))

    def sums(self, name):
        """integrity.json as Megatron writes it."""
        files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(pathlib.Path(self.path(name)).iterdir()) if path.is_file()}
        self.write(os.path.join(name, "integrity.json"), json.dumps({"algorithm": "sha256", "files": files}, indent=2))

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

    def change(self, name, code):
        """Python's CODE changes `root`: what a pickle or a file of JSON holds, or the tensors of a .safetensors file."""
        for path in self.paths(name):
            edit = lambda root: exec(code, {"root": root})
            if path.endswith(".json"):
                content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
                edit(content)
                pathlib.Path(path).write_text(json.dumps(content), encoding="utf-8")
            elif path.endswith(".safetensors"):
                tensors = edit_safetensors.read(path)
                edit(tensors)
                edit_safetensors.write(path, tensors)
            else:
                damage.change(path, edit)

    def states(self, code):
        """Python's CODE changes `param`, `exp_avg` and `exp_avg_sq` beside a model: arrays of floats by the names of their parameters."""
        files = {state: self.path(f"optimizer/{state}.safetensors") for state in ("param", "exp_avg", "exp_avg_sq")}
        stored = {state: edit_safetensors.read(file) for state, file in files.items()}
        values = {state: {name: array.array("f", bytes(data)) for name, (_, _, data) in tensors.items()} for state, tensors in stored.items()}
        exec(code, values)
        for state, tensors in stored.items():
            edit_safetensors.write(files[state], {name: [*tensor[:2], values[state][name].tobytes()] for name, tensor in tensors.items()})

    def tokenizer(self):
        """A file of it beside each config.json: most fixtures have none, and --strict counts that."""
        for path in pathlib.Path(self.table.names["copy"]).rglob("config.json"):
            path.with_name("tokenizer.model").touch()

    def tool(self, name, *arguments):
        """A program of tests/support."""
        self.table.run(0, [sys.executable, os.path.join(SUPPORT, name + ".py"), *arguments])

    def run(self, *arguments):
        """The program, which succeeds."""
        self.table.run(0, [self.table.program, *arguments])

    def do(self, parts):
        for name, *arguments in parts:
            own = getattr(self, name, None) if name not in ("do", "path", "paths", "table") else None
            if own:
                own(*arguments)
            else:
                for path in [self.path(arguments[0])] if name.startswith("make_") else self.paths(arguments[0]):
                    getattr(damage, name)(path, *arguments[1:])

"""Changes of config.json: each integer, each flag, each key. Knows JSON; nothing of what keys mean."""
import json

from change import Change, put


def _places(value, path=()):
    """(path, value) of everything in a JSON document."""
    yield path, value
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _places(one, (*path, key))
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from _places(one, (*path, i))


def _with(value, path, new):
    """A copy of the document with another value at `path`."""
    if not path:
        return new
    made = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = _with(value[path[0]], path[1:], new)
    return made


def _without(value, path):
    made = dict(value)
    if len(path) == 1:
        del made[path[0]]
    else:
        made[path[0]] = _without(value[path[0]], path[1:])
    return made


def _changes(fixture):
    name = fixture.config
    if name is None:
        return
    config = json.loads(fixture.read(name))

    def write(made):
        return lambda root: put(root, name, json.dumps(made, indent=2).encode())

    for path, value in _places(config):
        text = ".".join(map(str, path))
        if isinstance(value, bool):
            yield Change("config flag", f"{text}: {json.dumps(not value)}", write(_with(config, path, not value)), (name,))
        elif isinstance(value, int):
            for new in sorted({value * 2, value // 2, value + 1, value - 1} - {value}):
                yield Change("config integer", f"{text}: {value} to {new}", write(_with(config, path, new)), (name,))
        if path and all(isinstance(part, str) for part in path):
            yield Change("config key left out", text, write(_without(config, path)), (name,))


def integers(fixture, _):
    """Each integer times 2, halved, plus and minus 1."""
    return [change for change in _changes(fixture) if change.kind == "config integer"]


def others(fixture, _):
    """Each flag turned over, each key left out."""
    return [change for change in _changes(fixture) if change.kind != "config integer"]

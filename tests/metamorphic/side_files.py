"""Small files that go along: config.json, tokenizers, code, trackers; changed before a merge, and while it runs in each of its phases by the library of
tests/faults. Knows which files these are; nothing of what is in them."""
import os
import re
import zlib

from change import Change, put

_PHASES = ("survey", "bind", "create", "execute", "publish")
_ACTIONS = ("scribble", "grow", "shorten", "replace", "vanish", "link")


def names(fixture):
    return [name for name in fixture.files if re.search(r"\.(json|txt|model|py|jinja)$", name)]


def before(fixture, _):
    """A directory named by --hf_config may be made of links, as the hub's cache is; a checkpoint's own side files may not lead out of it."""
    listed = names(fixture)
    for name in listed:
        data = fixture.read(name)
        yield Change("side file before", f"{name} empty", lambda root, name=name: put(root, name, b""), (name,))
        yield Change("side file before", f"{name} cut", lambda root, name=name, data=data: put(root, name, data[:len(data) // 2]), (name,))
        yield Change("side file before", f"{name} a link out", lambda root, name=name: _link(root, name, "/etc/passwd"), (name,), is_given=name.startswith("hf/"))
        yield Change("side file before", f"{name} a link to nowhere", lambda root, name=name: _link(root, name, "nowhere"), (name,))
        yield Change("side file before", f"{name} a directory", lambda root, name=name: _directory(root, name), (name,))
    for one, other in zip(listed, listed[1:]):
        yield Change("side file before", f"{one} is {other}", lambda root, a=one, data=fixture.read(other): put(root, a, data), (one,))


def meanwhile(fixture, fixtures):
    """Struck at the first or second call of a phase that concerns the file: by everything for one fixture of a layout, by one thing for the others."""
    is_first = fixture.name == next(other.name for other in fixtures if other.layout == fixture.layout)
    for name in names(fixture):
        for phase in _PHASES:
            listed = [(action, nth) for action in _ACTIONS for nth in (1, 2)]
            chosen = zlib.crc32(f"{fixture.name} {name} {phase}".encode()) % len(listed)
            for action, nth in listed[chosen % 2::2] if is_first else listed[chosen:chosen + 1]:
                yield Change("side file meanwhile", f"{name} {action} in {phase}, call {nth}", lambda root: None, (name,),
                             f"call=any,side=input,phase={phase},path=/{'/'.join(name.split('/')[-2:])},nth={nth},do={action}",
                             is_given=action != "link" or name.startswith("hf/"))


def _link(root, name, to):
    os.remove(os.path.join(root, name))
    os.symlink(to, os.path.join(root, name))


def _directory(root, name):
    os.remove(os.path.join(root, name))
    os.mkdir(os.path.join(root, name))

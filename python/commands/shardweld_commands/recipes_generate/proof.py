"""Whether a merge with a recipe has the bytes of save_pretrained, and is written back from them."""
import collections
import json
import os
import shutil
import subprocess

import torch
from safetensors.torch import load_file

from .. import command
from .cuts import Rules
from .models import Refused, filled_model, variants
from .names import Trace

def tensors_in(directory):
    return {name: value for path in directory.glob("*.safetensors") for name, value in load_file(path).items()}


def same_bytes(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def difference(expected, got):
    lacks = [name for name in expected if name not in got]
    more = [name for name in got if name not in expected]
    differs = [name for name in expected if name in got and not same_bytes(expected[name], got[name])]
    return f"{len(lacks)} lacking, {len(more)} more, {len(differs)} others: {(lacks + more + differs)[0]}" if lacks or more or differs else ""


UNTOLD, UNSUPPORTED = "does not tell how large its parts are", f"code {command.UNSUPPORTED}:"


def run(words, launcher=()):
    done = subprocess.run([*launcher, command.program(), *map(str, words)], env=command.own_environment(), capture_output=True, text=True, check=False)
    said = [line for line in (done.stderr + done.stdout).splitlines() if "error:" in line]
    if done.returncode:
        raise Refused(f"code {done.returncode}: {(said or done.stderr.splitlines() or [''])[0][:200]}")


def launchers():
    """How one process is started, and three where mpirun works."""
    several = [*os.environ.get("MPIRUN", "mpirun").split(), "-n", "3"]
    try:
        run(["--version"], several)
    except (OSError, Refused):
        return {1: []}
    return {1: [], 3: several}


def prove(recipe, model, work, starts):
    """Refused where a merge or the way back differs; " one-way" where the program itself refuses the way back."""
    stored = {name: value.clone() for name, value in model.state_dict().items()}
    source, expected = work / "source", work / "expected"
    source.mkdir(parents=True)
    (source / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": 1}))
    torch.save(stored, source / "model_world_size_1_rank_0.pt")
    model.save_pretrained(expected)
    wanted = tensors_in(expected)
    for ranks, launcher in starts.items():
        target = work / f"merged{ranks}"
        run(["merge", "--local_dir", source, "--hf_config", expected, "--target_dir", target, "--recipe", recipe], launcher)
        why = difference(wanted, tensors_in(target))
        if why:
            raise Refused(f"merged by {ranks}: {why}")
    try:
        run(["reshape", expected, work / "back", "--to", "fsdp:world=1", "--recipe", recipe])
    except Refused as why:
        if UNTOLD in str(why):
            return " one-way"
        raise
    files = [one for one in sorted((work / "back").rglob("*rank_0.pt")) if one.name.startswith("model")]
    back = torch.load(files[0], weights_only=False) if files else {}
    back = {name: value.to_local() if hasattr(value, "to_local") else value for name, value in back.items()}
    # Of names of one tensor the model loads any.
    places = collections.defaultdict(list)
    for name, value in model.state_dict().items():
        places[(value.data_ptr(), value.shape) if value.numel() else name].append(name)
    lacking = {name for names in places.values() if any(name in back for name in names) for name in names if name not in back}
    why = difference({name: value for name, value in stored.items() if name not in lacking}, back)
    if why:
        raise Refused(f"written back: {why}")
    return ""


def try_type(model_type, name, work, starts):
    """The kind that proved.list has, the recipe's text, and the settings with which it was tried beside the usual ones. Refused where it is not proved."""
    step, rules, ways, proved = "no small model: ", Rules(), "", []
    path = work / f"{model_type}.recipe"
    try:
        settings = dict(variants(model_type))
        for config in settings.values():
            rules.add(Trace(filled_model(model_type, config)))
        step = ""
        text, is_cut, is_renamed = rules.recipe(model_type, name)
        path.write_text(text)
        step = "save_pretrained: "
        for switch, config in settings.items():
            try:
                ways = prove(path, filled_model(model_type, config), work / "proof", {1: []} if switch else starts) or ways
                proved += [switch] if switch else []
            except Refused as why:
                if not (switch and str(why).startswith(UNSUPPORTED)):  # such models are refused by name
                    raise Refused(f"with {switch} otherwise, {why}" if switch else str(why)) from why
            except Exception:  # noqa: BLE001: no such model is saved
                if not switch:
                    raise
            shutil.rmtree(work / "proof")
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001: libraries that are not there, configurations that make no model or are not saved
        raise Refused(step + (" ".join(str(error).split())[:110] or type(error).__name__)) from error
    return ("cut" if is_cut else "renamed" if is_renamed else "plain") + ways, text, proved

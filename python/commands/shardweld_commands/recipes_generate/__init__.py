"""`shardweld recipes generate`: recipes of model types, made of the classes of the transformers that is installed, each proved against its save_pretrained.

A small model of the type is made, and what would be saved of it is worked out with a number for each element instead of its value (names.py). Where each
number went says how tensors are renamed and cut anew (cuts.py); rules are made of that, and transformers is asked what it would make of other names below
the same module. The same is done with each switch of the configuration the other way that gives tensors other names (models.py). Then the program merges
checkpoints of these small models (random values, one FSDP rank file) with the rules, by one process and by three, and the result is held against
save_pretrained; and it writes the checkpoint back from that (proof.py). A type is proved if all of that is equal, byte for byte.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from ..command import UNSUPPORTED, Command, Failed, Given, run, say, show


def _name_of(model_type: str) -> str:
    """The recipe's: another one where a recipe that was written by hand has the type's own."""
    name = re.sub(r"\W", "_", model_type)
    built_in = run(["recipes", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return name + "_tree" if built_in.returncode == 0 and "\npass *\n" not in built_in.stdout else name


def run_generate(given: Given) -> int:
    try:
        import safetensors.torch  # noqa: F401
        import torch
        import transformers
    except ImportError as error:
        raise Failed(UNSUPPORTED, f"recipes generate asks transformers itself, and {sys.executable} has none: {error}",
                     "put a Python with torch and transformers first on PATH (pip install torch transformers)") from None
    from .models import Refused
    from .proof import launchers, try_type
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(50)
    transformers.utils.logging.disable_progress_bar()
    out, starts, refused, lines = pathlib.Path(given.get("out", ".")), launchers(), [], []
    out.mkdir(parents=True, exist_ok=True)
    for model_type in given.all("topic"):
        work = pathlib.Path(tempfile.mkdtemp())
        try:
            kind, text, settings = try_type(model_type, _name_of(model_type), work, starts)
            path = out / f"{model_type}.recipe"
            path.write_text(text)
            lines.append(f"{model_type} {kind}\n")
            if "quiet" not in given:
                say(f"{model_type}: proved with transformers {transformers.__version__}, by {' and by '.join(map(str, starts))} process"
                    f"{'es' if len(starts) > 1 else ''}{''.join(f', {one} otherwise' for one in settings)}: merge .. --recipe {path}")
        except Refused as why:
            refused.append(model_type)
            lines.append(f"{model_type} refused {' '.join(str(why).replace(str(work), '').split())}\n")
        finally:
            shutil.rmtree(work, ignore_errors=True)
        if "json" not in given:
            print(lines[-1], end="", flush=True)
    if "json" in given:
        show(given, "".join(lines), ok=not refused)
    if refused:
        raise Failed(UNSUPPORTED, f"no recipe could be proved for {', '.join(refused)}",
                     "write one (docs/using/own-family.md), or merge with --names module, which keeps the names of the module tree")
    return 0


COMMAND = Command("recipes-generate", run_generate)

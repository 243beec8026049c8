"""What is merged under faults: a checkpoint, options, ranks, and how the target looks before. Knows fixtures and directories; nothing of faults."""
import os
import shutil
from dataclasses import dataclass

import program
from program import Failed

OLD = {"model.safetensors.index.json": "an older model's index", "model-00001-of-00002.safetensors": "older tensors", "README.md": "a note"}


@dataclass(frozen=True)
class Scenario:
    name: str
    fixture: str            # below tests/data
    ranks: int = 1
    options: tuple = ()
    target: str = "new"     # new; old: --overwrite of a model that is there; inside: the same, where the directory itself cannot be replaced; empty: such
                            # a directory with nothing in it
    data: tuple = (".pt",)  # how files with tensors end

    def is_here(self):
        """Whether the target is the current directory."""
        return self.target in ("inside", "empty")

    def is_over_old(self):
        return self.target in ("old", "inside")


class Stage:
    """A scenario's directories: the input, and `out`, in which nothing but the target may be left."""

    def __init__(self, runner, data, scenario, is_moved=False):
        """The fixture is copied, so that faults may change it; `is_moved`: taken as it is."""
        self.runner, self.scenario = runner, scenario
        self._fixture = os.path.join(data, scenario.fixture)
        self.input = os.path.join(runner.work, "input")
        self.out = os.path.join(runner.work, "out")
        self.target = os.path.join(self.out, "model")
        self._is_input_whole = is_moved
        shutil.rmtree(self.input, ignore_errors=True)
        if is_moved:
            os.rename(self._fixture, self.input)
        self.good = None  # the content that the target has after a merge

    def merge(self, faults, ranks=None, options=None, meanwhile=None):
        """One merge into a fresh target; what was before is made again."""
        self._prepare()
        return self.merge_again(faults, (), ranks, options, meanwhile)

    def merge_again(self, faults, more=(), ranks=None, options=None, meanwhile=None):
        """One merge into what is there."""
        scenario = self.scenario
        config = os.path.join(self.input, "hf")
        arguments = ["merge", "-q", "--local_dir", os.path.join(self.input, "source"), "--report", self.runner.report,
                     "--target_dir", "." if scenario.is_here() else self.target,
                     *(["--hf_config", config] if os.path.isdir(config) else []), *(["--overwrite"] if scenario.is_over_old() else []),
                     *(scenario.options if options is None else options), *more]
        return self.runner.run(arguments, ranks or scenario.ranks, faults, (self.input, self.out), self.target if scenario.is_here() else None,
                               meanwhile)

    def changes_input(self):
        """The last merge changed the input: the next one needs a new copy."""
        self._is_input_whole = False

    def restore_input(self):
        """What is missing comes back, as old as it was."""
        shutil.copytree(self._fixture, self.input, dirs_exist_ok=True)

    def dry_run(self):
        """A merge without faults: what every merge has to give, and how many calls there are."""
        outcome = self.merge("")
        if outcome.code != 0 or outcome.struck:
            raise Failed(f"{self.scenario.name}: a merge without faults exits with code {outcome.code}: {outcome.stderr[-600:]}")
        self.good = program.content_of(self.out)
        self.good_target = program.content_of(self.target)
        return outcome

    def resume(self, ranks=None, options=None):
        """What a run that was ended has left leads to the model as if nothing had happened; beside a model that is whole nothing may be missing."""
        is_there = os.path.lexists(self.target)
        again = self.merge_again("", ("--resume", *(["--overwrite"] if is_there and self.scenario.target == "new" else [])), ranks, options)
        if again.code != 0 or self.now() != self.good:
            raise Failed(f"--resume exits with code {again.code}: {again.stderr[-600:]}")

    def before(self):
        """What `out` held before the merge."""
        return self._before

    def target_before(self):
        """What lay under the target's name before the merge; None: nothing."""
        inside = {name.removeprefix("model/"): digest for name, digest in self._before.items() if name.startswith("model/") and name != "model/"}
        return inside or None

    def now(self):
        return program.content_of(self.out)

    def _prepare(self):
        if not self._is_input_whole:
            shutil.rmtree(self.input, ignore_errors=True)
            shutil.copytree(self._fixture, self.input)
            self._is_input_whole = True
        shutil.rmtree(self.out, ignore_errors=True)
        os.makedirs(self.out)
        if self.scenario.target != "new":
            os.makedirs(self.target)
        if self.scenario.is_over_old():
            for name, text in OLD.items():
                with open(os.path.join(self.target, name), "w", encoding="utf-8") as file:
                    file.write(text)
        self._before = self.now()

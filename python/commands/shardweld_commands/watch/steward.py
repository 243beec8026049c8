"""What a watch does: it looks at the run, merges what is complete, does what is owed behind each merge, and keeps the books."""
import json
import os
import shutil
import signal
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional, Tuple

from .. import command
from ..command import CORRUPT, INCOMPLETE, INTERNAL, INTERRUPTED, IO, LAUNCH, LOCKED, MEMORY, MISMATCH, NO_CLIENT, NOT_FOUND, SPACE, STOPPED, TARGET, UNSUPPORTED, USAGE, Failed
from ..delta import version_name, versions_in
from ..stop import Stop
from ..text import counted, duration, human_bytes
from . import books
from .request import Request
from .steps import Look, Lookout, Ready, Step, ask, files_of, print_of
from .voice import Voice

REPORT, _PARTIAL, _REMOVED, _DONE = "shardweld_report.json", ".shardweld-partial", ".shardweld-removed", ".shardweld-done-"
_ENDS_WATCH = (STOPPED, INTERNAL, MEMORY, LAUNCH)        # the next step would end with it, too
_TELLS_INCOMPLETE = (NOT_FOUND, CORRUPT, MISMATCH)       # of a merge of a step that lacks something
_LOCKED_S = 30         # what a watch that was killed has left behind needs to end


def may_pass(code: int) -> bool:
    """Whether a failure may be over the next time."""
    return code in (IO, SPACE, LOCKED) or NO_CLIENT <= code <= INTERRUPTED


def is_own_output(output: str, run: str) -> bool:
    """Whether a directory is an output that the program made there of a step below `run`, as the report in it says."""
    try:
        with open(os.open(os.path.join(output, REPORT), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
            report = json.load(file)
        return bool(not os.path.islink(output) and report["command"] == "merge" and report["exit"]["code"] == 0 and report["output"]["dir"] == output
                    and os.path.commonpath([run, report["input"]["dir"]]) == run)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _beside(output: str, trace: str) -> str:
    return os.path.join(os.path.dirname(output), "." + os.path.basename(output) + trace)


def _text(failed: Failed) -> str:
    return "; ".join(filter(None, [failed.what, failed.where, failed.hint]))


def _placed(failed: Failed, place: str) -> Failed:
    """The failure, which says of what it is."""
    failed.where = "; ".join(filter(None, [place, failed.where]))
    return failed


class Steward:
    _report = REPORT  # in an output

    def __init__(self, asked: Request, voice: Voice, stop: Stop) -> None:
        self._asked, self._voice, self._stop = asked, voice, stop
        self._out = asked.outs[0]
        self._counts = books.Counts()
        self._diary = books.Diary(self._out, voice.line, voice.warning)
        earlier = self._diary.earlier
        self._owed, self._numbers = earlier.owed, earlier.numbers
        self._chain = earlier.chains.get(asked.delta_dir) or books.Chain()
        if asked.delta_against and not self._chain.step and not os.path.isdir(asked.delta_against):
            raise Failed(NOT_FOUND, f"there is no model {asked.delta_against} (--delta_against)")
        self._unmade: Dict[str, str] = {}   # steps that failed or never were complete, and why
        self._bridged: Dict[str, str] = {}  # steps whose deltas failed, and that the next one leads past
        self._tried: Dict[str, Tuple[float, bool]] = {}  # when a step's duties were tried last, and whether that may pass
        self._next_look, self._unseen, self._n_merges = 0.0, "", 0
        since = earlier.idle_since and time.monotonic() - max(time.time() - earlier.idle_since, 0)
        if since and asked.idle_exit is not None:
            voice.info(f"nothing new for {time.monotonic() - since:.0f} s of --idle_exit {asked.idle_exit:g}s, in the runs of job {books.job()} so far")
        self._lookout = Lookout(asked.run, [*asked.outs, *filter(None, [asked.delta_dir])], asked.interval, asked.every, asked.first, earlier.removed, since or None,
                                asked.is_mounted)
        for out in asked.outs:
            for name in os.listdir(out) if os.path.isdir(out) else []:
                if name.startswith(".") and name.endswith(_REMOVED):
                    shutil.rmtree(os.path.join(out, name), ignore_errors=True)
                elif name.startswith(_DONE):
                    os.unlink(os.path.join(out, name))
        voice.info(f"watching {asked.run} every {asked.interval:g}s")
        self._diary.write("watching", run=asked.run, out=self._out, interval_s=asked.interval, job=books.job(), host=os.uname().nodename, process=os.getpid())
        if not os.path.isdir(asked.run):
            voice.warning(f"{asked.run} is not there yet: waiting for it")

    def watch(self) -> None:
        """Until there is nothing more to do. Failed(INCOMPLETE) naming what is still owed."""
        code, why = INTERNAL, "it was cut off"
        try:
            begun = self._chain.begun  # a watch that was killed may have made a delta, and not told of it
            if begun and begun["version"] in map("{:06d}".format, versions_in(self._asked.delta_dir)) and "delta" in self._owed.get(begun["step"], []):
                self._link(begun["step"], begun["number"], int(begun["version"]))
            while not self._is_done():
                pass
            code, why = 0, self._faults()
            if why:
                raise Failed(INCOMPLETE, why, "the messages above say why; the same command tries again")
        except (Failed, OSError) as error:
            code, why = error.code if isinstance(error, Failed) else IO, str(error)
            raise
        finally:
            made, complete, failures, lost = (self._counts[f"steps_{what}_total"] for what in ("made", "complete", "failed", "lost"))
            self._diary.write("ended", why=why or "done", code=code, made=made, complete=complete, failed=failures, lost=lost)
            self._write_metrics()
            self._voice.info(f"{counted(made, 'step')} made, {complete} complete before")

    def _is_done(self) -> bool:
        """Waits for the next look, looks, and takes a step that is complete."""
        self._stop.check("between two steps")
        while time.monotonic() < self._next_look:
            time.sleep(min(max(self._next_look - time.monotonic(), 0), 0.2))
            self._stop.check("between two steps")
        is_asked = bool(self._asked.until) and os.path.lexists(self._asked.until)  # first: what is complete when the file comes is made
        try:
            look, self._unseen = self._lookout.look(time.monotonic()), ""
        except (OSError, Failed) as error:
            if isinstance(error, Failed) and error.code in _ENDS_WATCH:
                raise
            if str(error) != self._unseen:
                self._voice.warning(f"the run cannot be looked at: {error}")
            self._unseen = str(error)
            return False
        finally:
            self._next_look = time.monotonic() + self._asked.interval
        self._keep_books(look)
        # What earlier watches, or failures that may be over, have left; also where the trainer has deleted the step.
        for name in sorted((name for name in self._owed if self._owes(name)), key=lambda name: self._numbers.get(name, 0)):
            when, passes = self._tried.get(name, (0.0, True))
            if passes and (not when or time.monotonic() - when >= self._lookout.patience_s) and is_own_output(os.path.join(self._out, name), self._asked.run):
                self._tried.pop(name, None)
                self._serve(name)
                self._remove_older()
        if look.next:
            self._take(look.next)
            self._next_look = 0
            return False
        return not look.is_awaited and (is_asked or (self._asked.idle_exit is not None and look.idle_s >= self._asked.idle_exit))

    def _keep_books(self, look: Look) -> None:
        for path in look.doubles:
            self._voice.error(Failed(USAGE, f"{path} has the name of another step of {self._asked.run}", "watch the directory that it lies in, with an OUT of its own"))
            self._unmade[path] = "another step has its name"
        for name, why in look.news:
            self._voice.info(f"{name}: {why}")
            self._diary.write("waiting", step=name, why=why)
        self._counts.update(steps=look.n_steps, steps_waiting=look.n_waiting, last_look_timestamp_seconds=int(time.time()))
        self._write_metrics()

    def _write_metrics(self) -> None:
        try:
            if self._asked.metrics:
                self._counts.write(self._asked.metrics)
        except OSError as error:
            self._voice.warning(f"the metrics are not written: {error.filename}: {error.strerror}")

    def _note(self, name: str, event: str, owes: List[str], **fields: Any) -> None:
        self._owed[name] = owes
        self._diary.write(event, step=name, number=self._numbers.get(name, 0), **fields, owes=owes)

    # A step.

    def _take(self, ready: Ready) -> None:
        """Makes what is asked for of a step, and does what is owed behind it. Its errors are its own, but for those that end the watch."""
        step, before, begin = ready.step, self._owed.get(ready.step.name, []), time.monotonic()
        self._numbers[step.name] = step.number
        if books.PLAIN_NAME.fullmatch(step.name):
            failed, n_bytes = self._make(ready)
        else:
            failed, n_bytes = Failed(UNSUPPORTED, f"{step.name!r} is no plain name: what is made of it would get it, too",
                                     'rename the step: letters, digits, ".", "_" and "-"'), None
        if failed:
            self._owed[step.name] = before
            self._take_failure(ready, failed, before)
            return
        self._lookout.settle(ready, "made", time.monotonic(), n_bytes is not None)
        self._unmade.pop(step.name, None)
        if n_bytes is None:
            self._counts["steps_complete_total"] += 1
            if self._asked.delta_dir and step.number >= self._chain.number and step.name not in self._chain.done and "delta" not in before:
                before = ["delta", *before]
            self._note(step.name, "complete", before)
        else:
            self._counts["steps_made_total"] += 1
            self._counts["last_step"], self._counts["last_made_timestamp_seconds"] = step.number, int(time.time())
            self._chain.done.discard(step.name)
            self._tried.pop(step.name, None)
            self._note(step.name, "made", self._asked.duties(), output=self._outputs(step.name)[0], bytes=n_bytes, seconds=time.monotonic() - begin,
                       inputs=ready.print)
        self._serve(step.name)
        self._remove_older()

    def _make(self, ready: Ready) -> Tuple[Optional[Failed], Optional[int]]:
        """How that failed; else how many bytes of tensors were written, None where all was there."""
        name, output, begin = ready.step.name, self._outputs(ready.step.name)[0], time.monotonic()
        over = ["--overwrite"] if ready.was_made or "--overwrite" in self._asked.merge else []
        # A step's name becomes one in OUT and is told to commands: no link that somebody put there leads its output elsewhere.
        link = next((output for output in self._outputs(name) if os.path.islink(output)), "")
        if link:
            return Failed(TARGET, f"{link} is a link: the output would be where it leads", "remove it"), None
        if over or not os.path.lexists(output):
            self._begin(ready)
        failed, n_bytes = self._merge(ready, over)
        if failed and failed.code == TARGET and not over and self._may_replace(ready):
            self._begin(ready)
            failed, n_bytes = self._merge(ready, ["--overwrite"])
        if failed and failed.code in (MISMATCH, TARGET) and os.path.lexists(_beside(output, _PARTIAL)):
            self._voice.info(f"begins again with {name}: what an earlier run left does not fit: {failed.what}")
            self._diary.write("restarted", step=name, error=_text(failed))
            failed, n_bytes = self._merge(ready, ["--restart", *over])
        if n_bytes is not None:
            self._counts["bytes_written_total"] += n_bytes
            self._counts["merge_seconds_total"] += time.monotonic() - begin
            self._leave_cache(name)
            self._voice.info(f"made {output}: {human_bytes(n_bytes)} in {duration(time.monotonic() - begin)}")
        return failed, n_bytes

    def _begin(self, ready: Ready) -> None:
        self._voice.info(f"merging {ready.step.name}")
        self._note(ready.step.name, "merging", self._asked.duties(), source=ready.step.path, output=os.path.join(self._out, ready.step.name))

    def _outputs(self, name: str) -> List[str]:
        return [os.path.join(out, name) for out in self._asked.outs]

    def _merge(self, ready: Ready, more: List[str]) -> Tuple[Optional[Failed], Optional[int]]:
        """How a merge of the step failed; else how many bytes of tensors it wrote, None where all was there."""
        step, asked = ready.step, self._asked
        polite = (["nice", "-n", "19"] + (["ionice", "-t", "-c", "3"] if shutil.which("ionice") else [])) if asked.launch and asked.is_polite else []
        also = [f"--also={output}{form}" for output, form in zip(self._outputs(step.name)[1:], asked.forms)]
        self._n_merges += 1
        done = os.path.join(self._out, f"{_DONE}{os.getpid()}.{self._n_merges}")  # a name that no cache of names knows
        words = [*asked.launch, *polite, command.program(), "merge", step.path, os.path.join(self._out, step.name), *asked.merge, *also, *self._role(step),
                 "--if_complete=skip", "--progress=json", f"--done={done}", *more]
        told: List[Failed] = []
        summaries: List[int] = []

        def on_line(line: str) -> None:
            try:
                row = json.loads(line)
                event = row["event"]
            except (ValueError, KeyError, TypeError):
                self._voice.say(line)  # the launcher's
                return
            if event == "error":
                told.append(Failed(row["code"], row["what"], row["hint"], "; ".join(row["where"])))
            elif event == "summary":
                summaries.append(row["bytes"])
            elif event == "message":
                self._voice.message(row["level"], row["text"])
            elif event == "progress":
                self._voice.progress(row)
                self._voice.line(line)

        deadline = time.monotonic() + _LOCKED_S
        while True:
            ended = self._stop.run(words, on_line, signal.SIGUSR1, signal.SIGTERM if asked.launch else signal.SIGKILL, command.own_environment())
            code = self._code_of(done, ended, told)
            if code != LOCKED or time.monotonic() > deadline:
                break
            told.clear()
            self._stop.check(f"while {step.name} was locked")
            time.sleep(0.5)
        if not code:
            return None, sum(summaries) if summaries else None
        self._stop.check(f"while {step.name} was merged")
        failed = told[-1] if told else Failed(code, f"the merge of {step.name} ended with code {code}")
        if code in _ENDS_WATCH or code > 128:
            raise _placed(failed, f"step {step.name}")
        return failed, None

    def _role(self, step: Step) -> List[str]:
        """The actor, where there is a critic, too, and nothing else is asked for."""
        has_both = all(os.path.isdir(os.path.join(step.path, part)) for part in ("actor", "critic"))
        return ["--role=actor"] if has_both and not any(word.startswith("--role=") for word in self._asked.merge) else []

    def _code_of(self, done: str, ended: int, told: List[Failed]) -> int:
        """How a merge ended, as the file says that it wrote itself: a launcher may return 0 where nothing ran."""
        with suppress(OSError, ValueError, KeyError):
            with open(done, encoding="utf-8") as file:
                code = int(json.load(file)["code"])
            os.unlink(done)
            return code
        if ended < 0 or ended > 128:
            code = ended if ended > 0 else 128 - ended
            told.append(Failed(code, f"the merge was killed by signal {code - 128}", "the same command goes on"))
        elif not told:
            told.append(Failed(ended if ended == USAGE else LAUNCH,
                               f"no rank has told of its end, and {'the launcher' if self._asked.launch else 'the program'} returned {ended}",
                               "the lines above may say why; look for what other jobs left on the nodes"))
        return told[-1].code

    def _may_replace(self, ready: Ready) -> bool:
        """Whether what is there was made of this run with the same options: its files were others then."""
        outputs = self._outputs(ready.step.name)
        if not all(is_own_output(output, self._asked.run) or not os.path.lexists(output) for output in outputs) or not os.path.lexists(outputs[0]):
            return False
        done = command.run(["plan", ready.step.path, *self._asked.merge, "--json"], stdout=-1, stderr=-3)
        with open(os.path.join(outputs[0], REPORT), encoding="utf-8") as file:
            return done.returncode == 0 and bool(json.loads(done.stdout)["options"] == json.load(file)["output"]["options"])

    def _leave_cache(self, name: str) -> None:
        """What was written leaves the page cache, which is the trainer's."""
        for path in (os.path.join(output, path) for output in self._outputs(name) if self._asked.is_polite for path in files_of(output)):
            with suppress(OSError), open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def _take_failure(self, ready: Ready, failed: Failed, owes: List[str]) -> None:
        """The step was deleted while it was read, was not complete after all, or cannot be merged."""
        name, now = ready.step.name, time.monotonic()
        try:
            files = files_of(ready.step.path)
        except OSError:
            files = {}
        is_changed = print_of(files) != ready.print
        if len(files) < ready.n_files:
            self._counts["steps_lost_total"] += 1
            text = f"{name} was deleted while it was read: {failed.what}"
            if self._asked.skips_lost:
                self._voice.warning(text)
            else:
                self._voice.error(Failed(failed.code, text, "let the trainer keep more steps, or give --on_lost skip"))
                self._unmade[name] = "it was deleted while it was read"
            self._note(name, "lost", owes, error=_text(failed))
            for output in self._outputs(name):
                shutil.rmtree(_beside(output, _PARTIAL), ignore_errors=True)
            self._lookout.forget(name)
        elif is_changed or (not ready.has_signs and failed.code in _TELLS_INCOMPLETE):
            self._voice.warning(f"{name} was not complete: {_text(failed)}")
            self._note(name, "incomplete", owes, error=_text(failed))
            self._unmade[name] = "it was not complete"
            self._lookout.settle(ready, "" if is_changed else "failed", now)
        else:
            self._counts["steps_failed_total"] += 1
            self._unmade[name] = failed.what
            self._note(name, "failed", owes, code=failed.code, error=_text(failed))
            self._voice.error(_placed(failed, f"step {name}"))
            self._lookout.settle(ready, "failed" if may_pass(failed.code) else "refused", now)

    # What is owed behind it.

    def _owes(self, name: str) -> List[str]:
        return [duty for duty in self._asked.duties() if duty in self._owed.get(name, [])]

    def _serve(self, name: str) -> None:
        """A hook waits for the rest; else each duty is done, whatever becomes of the others."""
        if name in self._tried:
            return
        passes = True
        for duty in self._owes(name):
            if duty == "then" and self._owes(name) != ["then"]:
                break
            code = {"delta": self._deliver, "upload": self._upload, "then": self._follow}[duty](name)
            passes = passes and (code == 0 or (duty != "then" and may_pass(code)))
        if self._owes(name):
            self._tried[name] = (time.monotonic(), passes)

    def _settle_duty(self, name: str, duty: str, event: str, **fields: Any) -> None:
        self._note(name, event, [other for other in self._owed[name] if other != duty], **fields)

    def _run_program(self, words: List[str], dies_with: int) -> Optional[Failed]:
        lines: List[str] = []

        def on_line(line: str) -> None:
            lines.append(line)
            self._voice.message("debug", line)

        ended = self._stop.run([command.program(), *words], on_line, signal.SIGTERM, dies_with, command.own_environment())
        self._stop.check(f"while {words[0]} ran")
        if ended < 0:
            raise Failed(128 - ended, f"{words[0]} was killed by signal {-ended}", "the same command goes on")
        at = next((at for at, line in enumerate(lines) if line.startswith("error: ")), len(lines))
        texts = [line.strip() for line in lines[at:]] or lines[-1:]
        hint = "; ".join(line[len("hint: "):] for line in texts if line.startswith("hint: "))
        what = "; ".join(line for line in texts if not line.startswith(("hint: ", "see: ")))
        return Failed(ended, what[len("error: "):] if what.startswith("error: ") else what or f"it ended with code {ended}", hint) if ended else None

    def _complain(self, name: str, event: str, failed: Failed, where: str) -> int:
        self._counts["steps_failed_total"] += 1
        self._note(name, event, self._owed[name], code=failed.code, error=_text(failed))
        self._voice.error(_placed(failed, f"{where} {name}"))
        return failed.code

    def _upload(self, name: str) -> int:
        words = ["upload", os.path.join(self._out, name), *(word.replace("{n}", str(self._numbers.get(name, 0))) for word in self._asked.upload)]
        self._voice.info(f"uploading {name}")
        failed = self._run_program(words, signal.SIGTERM)
        if failed:
            return self._complain(name, "upload_failed", failed, "upload of step")
        self._settle_duty(name, "upload", "uploaded")
        return 0

    def _deliver(self, name: str) -> int:
        asked, chain, number = self._asked, self._chain, self._numbers.get(name, 0)
        last = max(versions_in(asked.delta_dir), default=0)
        previous = os.path.join(self._out, chain.step) if chain.step else asked.delta_against
        if not previous or (not chain.step and previous == os.path.join(self._out, name)):
            self._voice.info(f"{name} has no delta: the deltas begin with it (--delta_against)")
            return self._link(name, number, last)
        if chain.step == name and not chain.version:
            return self._link(name, number, 0)
        told = {"step": name, "number": number, "directory": asked.delta_dir}
        self._diary.write("delta_begun", **told, version=f"{last + 1:06d}")
        failed = self._run_program(["delta", previous, os.path.join(self._out, name), asked.delta_dir], signal.SIGKILL)
        if failed:
            if failed.code == NOT_FOUND:
                failed.hint = "without the model that the last version leads to, begin anew: give another --delta_dir, and the engines the whole model"
            self._diary.write("delta_failed", **told, code=failed.code, error=_text(failed))
            return self._complain(name, "waiting", failed, "delta of step")
        self._counts["deltas_made_total"] += 1
        return self._link(name, number, last + 1)

    def _link(self, name: str, number: int, version: int) -> int:
        directory = os.path.join(self._asked.delta_dir, version_name(version))
        n_bytes = sum(size for size, _ in files_of(directory).values()) if version else 0
        self._chain.step, self._chain.number, self._chain.version = name, number, version
        self._chain.done.add(name)
        for other in [other for other in self._owed if "delta" in self._owes(other) and self._numbers.get(other, 0) < number]:
            self._bridged[other] = ""
            self._settle_duty(other, "delta", "bridged")
        self._settle_duty(name, "delta", "delta", directory=self._asked.delta_dir, version=f"{version:06d}", bytes=n_bytes)
        return 0

    def _follow(self, name: str) -> int:
        output = self._outputs(name)[0]
        environment = dict(command.own_environment(), SHARDWELD_STEP=name, SHARDWELD_OUTPUT=output, SHARDWELD_REPORT=os.path.join(output, self._report))
        try:
            ended = self._stop.run(list(self._asked.then), lambda line: self._voice.info("then: " + line[:1000]), signal.SIGTERM, signal.SIGTERM, environment)
            fault = "" if ended == 0 else f"ended with exit code {ended}" if ended > 0 else f"was killed by signal {-ended}"
        except Failed as failed:
            ended, fault = failed.code, failed.what
        self._stop.check(f"while the command of --then ran behind {name}")
        if fault:
            self._counts["then_failed_total"] += 1
            self._note(name, "then", self._owed[name], fault=fault)
            self._voice.warning(f"the command of --then {fault}, behind {name}")
        else:
            self._settle_duty(name, "then", "then", fault="")
        return ended

    def _remove_older(self) -> None:
        """Outputs beyond the newest of --keep that the program made here of this run, and nothing else; none behind which something is owed, or from which
        the next delta leads."""
        try:
            rows = ask(self._out)["steps"] if self._asked.keep else []
            own = [row["name"] for row in rows if row["directory"] == self._out and is_own_output(os.path.join(self._out, row["name"]), self._asked.run)]
            for name in own[:-self._asked.keep]:
                if self._owes(name) or (self._asked.delta_dir and name == self._chain.step):
                    continue
                # Noted first: once it is gone nothing else tells that the step was made.
                self._lookout.left[name] = self._lookout.print_of(name)
                self._diary.write("removed", step=name, inputs=self._lookout.left[name])
                for output in self._outputs(name):
                    if is_own_output(output, self._asked.run):
                        os.rename(output, _beside(output, _REMOVED))  # nobody finds half of it
                        shutil.rmtree(_beside(output, _REMOVED))
                self._counts["outputs_removed_total"] += 1
                self._voice.info(f"removed {os.path.join(self._out, name)} (--keep {self._asked.keep})")
        except (OSError, Failed) as error:
            self._voice.warning(f"an older output stays: {error}")

    def _faults(self) -> str:
        """What is still owed, for people; "" if nothing."""
        rows = [("not finished", list(self._unmade)),
                ("never complete", [f"{name} ({why})" for name, why in self._lookout.waiting().items() if name not in self._unmade])]
        for text, duty in (("without a delta", "delta"), ("not uploaded", "upload"), ("without its command (--then)", "then")):
            names = [name for name in self._owed if duty in self._owes(name) and is_own_output(os.path.join(self._out, name), self._asked.run)]
            rows.append((text, names + [name for name in self._bridged if duty == "delta" and name not in names]))
        return "; ".join(f"{counted(len(names), 'step')} {text}: {', '.join(names)}" for text, names in rows if names)

"""shardweld watch: merges each step of a training run as soon as it is complete, in a loop over `shardweld merge`."""
import os
import shutil
import subprocess

from .. import command
from ..command import LAUNCH, NO_CLIENT, NO_TOKEN, TARGET, Command, Failed, Given, Option
from .children import Stop, Voice, deadline
from .request import moment_of, refuse_ranks, request_of, seconds_of
from .steward import Steward


def _be_polite() -> None:
    """Processor and disk are the trainer's first; what is run inherits it."""
    os.nice(19)
    if shutil.which("ionice"):
        subprocess.run(["ionice", "-t", "-c", "3", "-p", str(os.getpid())], stderr=subprocess.DEVNULL, check=False)


def _watch(given: Given) -> int:
    refuse_ranks()
    voice = Voice(given.get("progress", "auto"), "quiet" in given, "verbose" in given)
    try:
        stop = Stop()
        asked = request_of(given)
        stop.deadline = deadline(seconds_of(given, "stop_before"), moment_of(given, "stop_at"))
        if asked.is_polite:
            _be_polite()
        if os.path.lexists(asked.outs[0]) and not os.path.isdir(asked.outs[0]):
            raise Failed(TARGET, f"{asked.outs[0]} is not a directory", "name a directory for the outputs")
        os.makedirs(asked.outs[0], exist_ok=True)
        Steward(asked, voice, stop).watch()
    except Failed as failed:
        voice.error(failed)
        return failed.code
    return 0


COMMAND = Command(
    name="watch",
    usage="shardweld watch RUN OUT [options]",
    summary="merge each step of a training run as soon as it is complete",
    about="""Takes the options of merge. A step is complete when its trainer says so, its files have been quiet
for two intervals and a merge of it can be planned. Each becomes OUT/STEP, by the name of the
step's directory, and is made once. Ends by itself with --until or --idle_exit; exit code 16 names
what is still owed.

Examples:
  shardweld watch checkpoints merged --dtype bf16
  shardweld watch checkpoints merged --keep 3 --then 'python eval.py'
  shardweld watch checkpoints merged --launch 'mpirun -n 4' --every 1000 --bw_limit 500MB
""",
    run=_watch,
    arguments=("local_dir", "target_dir"),
    passes_on="merge",
    options=(
        Option("local_dir", "DIR", "the directory of a training run, or one above it", group="Input", kind="directory"),
        Option("target_dir", "DIR", "directory in which each step gets one of its name", group="Output", kind="directory"),
        Option("also", "DIR[:FORM]", "write each step to DIR, too, as FORM; may be given several times", group="Output", kind="directory", is_repeated=True,
               is_usual=False),
        Option("launch", "CMD", "start each merge with CMD in front of it, which gives it its ranks: 'srun -n 8', 'mpirun -n 4'; no shell reads it",
               group="Watching"),
        Option("interval", "TIME", "look at the run this often (default 30s)", group="Watching"),
        Option("every", "N", "only steps whose number is a multiple of N", group="Watching"),
        Option("from", "STEP", "only this step and those with higher numbers: 1000 or a directory's name", group="Watching"),
        Option("keep", "N", "keep the N newest outputs; older ones are removed where their own reports say that they were made here and nothing is owed behind "
               "them", group="Watching"),
        Option("idle_exit", "TIME", "end when nothing new was written for this long", group="Watching"),
        Option("until", "FILE", "end when FILE is there and what is complete by then is made", group="Watching", kind="file"),
        Option("then", "CMD", "run CMD behind each step, with SHARDWELD_STEP, SHARDWELD_OUTPUT and SHARDWELD_REPORT in its environment; no shell reads it",
               group="Watching"),
        Option("on_lost", "HOW", "steps that the trainer deletes while they are read: error (default: the end has exit code 16) or skip (a warning)",
               group="Watching", words=("error", "skip"), is_usual=False),
        Option("metrics", "FILE", "write counts and times to FILE as Prometheus' text, after each look", group="Watching", kind="file"),
        Option("polite", "HOW", "leave processor and disk to the training job: yes (default: as nice 19 and ionice -c idle, and written files leave the page "
               "cache) or no", group="Watching", words=("yes", "no"), is_usual=False),
        Option("delta_against", "DIR", "the model from which the first step's delta leads (default: the first step has none)", group="Deltas", kind="directory",
               is_usual=False),
        Option("delta_dir", "DIR", "write what changed from each step to the next into DIR, as the command delta does", group="Deltas", kind="directory",
               is_usual=False),
        Option("hf_upload_path", "ORG/NAME", "upload each step to this repository of the Hub, as the command upload does", group="Upload", is_usual=False),
        Option("private", "", "make the repository private if it is new", group="Upload", is_usual=False),
        Option("revision", "BRANCH", "upload each step to a branch, in whose name {n} stands for the step's number", group="Upload", is_usual=False),
        Option("hf_cli", "PATH", "the client (default: hf on PATH, from pip install huggingface_hub)", group="Upload", kind="file", is_usual=False),
        Option("stop_before", "TIME", "stop this long before the job ends, ready to go on: 90s, 5m (default under Slurm: 60s)", group="Execution", is_usual=False),
        Option("stop_at", "TIME", "stop at this time, ready to go on: +50m from now, 2026-11-22T03:10 or seconds since 1970", group="Execution", is_usual=False),
        Option("progress", "STYLE", "how progress is shown: auto (default), lines, json (with each line of the diary) or none", group="Messages",
               words=("auto", "bar", "lines", "json", "none"), is_usual=False),
        command.VERBOSE,
        command.QUIET,
    ),
    exit_codes=((command.SPACE, "disk, quota or inodes are exhausted"), (LAUNCH, "MPI or the launcher"), (command.STOPPED, "stopped, the same command goes on"),
                (TARGET, "OUT is no directory"), (command.LOCKED, "another watch has this OUT"),
                (command.INCOMPLETE, "a step was not made, or what is run behind it failed"), (NO_CLIENT, "upload: no client"), (NO_TOKEN, "upload: no token")),
    environment=(("SHARDWELD_STEP, SHARDWELD_OUTPUT, SHARDWELD_REPORT",
                  "set for the command of --then: the name of the step's directory, the output, and its report."),
                 ("SLURM_JOB_ID, SLURM_JOB_END_TIME, SLURM_RESTART_COUNT", "the job, its end, before which a watch stops, and whether it goes on with an earlier run.")),
    files=(("watch.jsonl", "in OUT: what the watch did, a line of JSON for each event."),),
)

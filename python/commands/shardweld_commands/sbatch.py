"""`shardweld sbatch`: a job script for Slurm that merges with the ranks, memory and time that `shardweld plan` forecasts."""
import json
import os
import re
import shlex
import subprocess
from typing import Any, Dict, List, Optional

from .command import INTERNAL, USAGE, Command, Failed, Given, program, run, show
from .files import MIB, read_bytes
from .text import duration, human_bytes, printable

_RANKS_OF_NODE = 4      # where they are not given
_CORES_OF_RANK = 2      # one thread reads ahead while another exchanges and writes
_LEAST_MEMORY = 512 * MIB  # of a rank: half of it is what buffers may take by default, so the merge makes the plan that is shown
_START_SECONDS, _TIME_STEP = 300, 300  # starting, the last fsync


def rounded_up(value: int, step: int) -> int:
    return -(-value // step) * step


def clock(seconds: int) -> str:
    """"26:05:00"; Slurm takes any number of hours."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def seconds_in(text: str) -> Optional[int]:
    """Of a time as sinfo prints it ("1-02:30:00", "30:00"); None for none ("infinite")."""
    found = re.fullmatch(r"(?:([0-9]{1,6})-)?([0-9]{1,6}(?::[0-9]{1,6}){0,2})", text)
    if not found:
        return None
    seconds = 0
    for at, part in enumerate(found[2].split(":")):
        seconds = seconds * 60 + int(part) + (24 * int(found[1] or 0) if at == 0 else 0)
    return seconds


def partition_limit() -> Optional[int]:
    """The longest time of a job in the default partition, where there is a Slurm that tells."""
    try:
        told = subprocess.run(["sinfo", "-h", "-o", "%P %l"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    limits = [line.partition("* ")[2].strip() for line in told.decode(errors="replace").splitlines() if "* " in line]
    return seconds_in(limits[-1]) if limits else None


def template(name: str) -> str:
    """A text of slurm/, which lies beside this package or, in the sources, at their top."""
    here = os.path.dirname(os.path.realpath(__file__))
    for place in (os.path.join(here, "..", "slurm", name), os.path.join(here, "..", "..", "..", "slurm", name)):
        if os.path.isfile(place):
            return read_bytes(place, MIB).decode()
    raise Failed(INTERNAL, f"slurm/{name} is not where the installation has it", "install shardweld again")


def merge_words(plan: Any) -> List[str]:
    """The merge's options; a run may end between publishing and its own end, and is verified then."""
    words = [str(word) for word in plan["merge_words"]]
    for name, value in (("--target_dir", plan["target"]), ("--report", plan["target"] + ".report.json"), ("--if_complete", "verify")):
        if not any(word == name or word.startswith(name + "=") for word in words):
            words += [name, value]
    return words


def script_of(plan: Any, nodes: int, limit: Optional[int], asked: Given) -> str:
    """Memory is the forecast's peak with room beside it; time is the longest that plan forecasts, at most what the partition allows: a limit that was
    too short costs more than one that was too long. What the site asks for is in `asked`."""
    forecast = next(one for one in plan["advice"]["forecasts"] if one["ranks"] == plan["ranks"])
    moved, rate, longest = sum(plan["read_by_rank"]) + sum(plan["written_by_rank"]), human_bytes(plan["advice"]["rate"]), forecast["slow_s"]
    wanted = rounded_up(_START_SECONDS + int(longest), _TIME_STEP)
    times = f"{duration(longest)} at {rate} a second, as --rate states" if plan["advice"]["is_stated"] else (
        f"{duration(forecast['total_s'])} at the rates that plan assumes, {duration(longest)} at {rate} a second, which the limit is for; --rate states yours")
    seconds = wanted if limit is None else min(wanted, limit)
    peak = plan["peak_bytes"]
    memory = rounded_up(max(_LEAST_MEMORY, peak + peak // 4 + 64 * MIB), 64 * MIB * _CORES_OF_RANK)
    values: Dict[str, Any] = {
        "INPUT": f"{printable(plan['input']['dir'])} ({plan['input']['format']})", "OUTPUT": human_bytes(plan["total_bytes"]), "NODES": nodes, "RANKS": plan["ranks"],
        "RANKS_OF_NODE": -(-plan["ranks"] // nodes), "CORES": _CORES_OF_RANK, "PEAK": human_bytes(peak), "MEBIBYTES": memory // _CORES_OF_RANK // MIB,
        "MOVED": human_bytes(moved), "TIMES": times, "TIME": asked.get("time", clock(seconds)), "TARGET": shlex.quote(plan["target"]),
        "LOG": asked.get("output", "shardweld-%j.out"),
        "ASKED": "".join(f"#SBATCH --{name}={asked.get(name)}\n" for name in ("partition", "account") if name in asked),
        "SITE": "".join(f"module load {shlex.quote(name)}\n" for name in asked.all("module")) +
                (f"export SHARDWELD_MPI={shlex.quote(asked.get('mpi'))}\n" if "mpi" in asked else ""),
        "WHY": f"# It wants {clock(wanted)}, which the partition does not give: the job queues again.\n" if seconds < wanted and "time" not in asked else "",
        "PROGRAM": shlex.quote(program()), "FUNCTIONS": template("job.sh"),
        "WORDS": "".join((" \\\n    " if word.startswith("--") else " ") + shlex.quote(word) for word in merge_words(plan))}
    return re.sub("@([A-Z_]+)@", lambda found: str(values[found[1]]), template("plan.template"))


def run_command(given: Given) -> int:
    nodes = int(given.get("nodes", "1"))
    for name in ("partition", "account", "time", "output"):
        if not re.fullmatch(r"[\w.,:/%@+=~-]*", given.get(name)):
            raise Failed(USAGE, f"--{name} {given.get(name)!r} cannot stand behind #SBATCH", "write it as sbatch takes it, without blanks")
    ranks = int(given.get("ranks", str(_RANKS_OF_NODE * nodes)))
    if ranks < nodes:
        raise Failed(USAGE, f"--nodes {nodes} is more than --ranks {ranks}", "give each node at least one rank")
    if any(word.startswith(("--to=", "--like=")) and word != "--to=hf" for word in given.passed_on):
        raise Failed(USAGE, "--sbatch is not for training checkpoints", "give slurm/merge.sbatch the words of the reshape")
    done = run(["plan", *given.passed_on, "--ranks", str(ranks), "--json"], stdout=subprocess.PIPE)
    plan = json.loads(done.stdout or "{}")
    if "advice" not in plan:  # it has failed
        print(done.stdout, end="") if "json" in given else None
        return done.returncode
    if plan["target"] is None:
        raise Failed(USAGE, "no target is given", "name the directory to write: shardweld plan DIR OUT --sbatch")
    show(given, script_of(plan, nodes, None if "partition" in given else partition_limit(), given), ok=plan["ok"], dir=plan["dir"])
    return done.returncode


COMMAND = Command("sbatch", run_command)

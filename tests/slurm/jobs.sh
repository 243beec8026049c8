# Jobs and what became of them: source it after cluster.sh.
SCRIPTS="$(cd "$TESTS/../slurm" && pwd)"
PATH="$(dirname "$SHARDWELD"):$PATH"
# The nodes' network. Ranks that start twice as slow as others find Slurm 22.05's usual way of waiting for each other faulty
# (docs/using/troubleshooting.md).
export OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0 SLURM_PMIX_FENCE=ring
cd "$HOSTS"

# submit SBATCH-ARGUMENTS: the job's number in $job; its output goes to $HOSTS/NUMBER.log (arrays: NUMBER_TASK.log).
submit() {
    job="$(sbatch --parsable --output="$HOSTS/%j.log" --open-mode=append "$@" 2>"$WORK/err")" || { job=none; fail "sbatch $*: $(<"$WORK/err")"; }
}

field() { # JOB NAME: of what Slurm tells of a job
    [[ "$(scontrol -o show job "$1" 2>/dev/null)" =~ \ $2=([^ ]*) ]] && echo "${BASH_REMATCH[1]}"
}

has_ended() { # JOB
    [[ "$(field "$1" JobState)" =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|DEADLINE)$ ]]
}

is_running() { # JOB
    [[ "$(field "$1" JobState)" == RUNNING ]]
}

# Its processes have ended, and Slurm waits for a node's word. On a busy machine a word is lost; Slurm asks again after minutes.
is_completing() { # JOB
    [[ "$(field "$1" JobState)" == COMPLETING ]]
}

# expect_end JOB STATE CODE NAME [SECONDS]: how a job ends, by default within a minute. To ask Slurm costs as much as to start a small merge.
expect_end() {
    local state code PAUSE=0.5
    eventually "${5:-60}" has_ended "$1" || { is_completing "$1" && eventually 240 has_ended "$1"; }
    state="$(field "$1" JobState)"
    code="$(field "$1" ExitCode)"
    [[ "$state" == "$2" && "${code%:*}" == "$3" ]] || {
        fail "$4: job $1 is $state with code $code, expected $2 with $3"
        { tail -n 12 "$HOSTS/$1.log"; scontrol -o show job "$1"; scontrol -o show step "$1"; processes; } | sed 's/^/    /'
        return 1
    }
}

# What hangs where, should anything.
processes() {
    local pid
    ps -eo pid,ppid,etimes,stat,wchan:20,args | grep -E 'srun|slurmstepd|shardweld' | grep -v grep | cut -c1-160
    for pid in $(pgrep -x shardweld); do
        echo "$pid: $(tr -s '\0' ' ' <"/proc/$pid/syscall") $(grep -h -E 'State|SigCgt' "/proc/$pid/status" | tr '\n\t' '  ')"
    done
}

expect_log() { # JOB TEXT NAME
    grep -qF -- "$2" "$HOSTS/$1.log" || fail "$3: no '$2' in: $(tail -c 600 "$HOSTS/$1.log")"
}

# expect_report FILE EXPRESSION NAME: Python over `report` and `hosts` (how many).
expect_report() {
    python3 - "$1" "$2" <<'P' || fail "$3: the report does not say: $2"
import json, sys
report = json.load(open(sys.argv[1]))
hosts = len(set(report["environment"]["hosts"]))
sent = sum(rank["bytes_sent"] for rank in report["ranks"])
assert eval(sys.argv[2]), (report["environment"], report.get("resume"))
P
}

expect_same() { # SUM DIR NAME
    [[ -d "$2" && "$(sum_of "$2")" == "$1" ]] || fail "$3: $2 does not hold the files that one rank makes"
}

# writes_into DIR: tensors are on their way to it.
writes_into() {
    [[ -n "$(find "$(dirname "$1")/.$(basename "$1").shardweld-partial" -name 'model*.safetensors' -size +0 2>/dev/null)" ]]
}

# keeps_some DIR: of what is on its way to it, something would be gone on with.
keeps_some() {
    [[ -n "$(find "$(dirname "$1")/.$(basename "$1").shardweld-partial/journal" -name '*-*' -size +0 2>/dev/null)" ]]
}

# What the job scripts have in common: the log, steps that prove that they ran, and when a job queues again. Each script sources this file;
# `shardweld sbatch` prints it as part of its script.

# usage SCRIPT: what the comment at the script's head says.
usage() {
    sed -n '2,/^#SBATCH/{/^#SBATCH/!s/^# \?//p}' "$1" >&2
    exit 2
}

# begin_job: from here on each line of the log has a time. Both streams go to the job's output, and the lines to the last one are written before the
# job ends.
begin_job() {
    restarts=${SLURM_RESTART_COUNT:-0}
    exec > >(
        trap '' TERM INT HUP USR1 USR2
        while IFS= read -r line || [[ -n $line ]]; do printf '%(%F %T)T %s\n' -1 "$line"; done
    ) 2>&1
    stamper=$!
    trap end_log EXIT
    echo "run $((restarts + 1)) of job ${SLURM_JOB_ID:-none} on ${SLURM_JOB_NODELIST:-$(uname -n)}; all runs: sacct -D -j ${SLURM_JOB_ID:-none}"
    # Ranks that start at different speeds die in Slurm's usual way of waiting for each other (code 139, mostly).
    export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}
}

end_log() {
    exec >&- 2>&-
    wait "$stamper" || :
}

# step COMMAND OPTIONS: runs shardweld on the job's ranks; the code in $code. srun may return 0 where no task was launched (leftovers of a node that
# crashed, no room for PMIx, another PMIx than the plugin's): 0 is believed only if the program says in a file of its own (--done) that it came to its
# end in this run of this job. Else the code is 10, and $unproved is 1. The file lies beside $target, under a name that nobody looked at before: name
# caches cannot hide it.
# --mpi=pmix: without it Open MPI's ranks do not find each other. -K: a rank that dies ends the step; without it the others wait for it. -c once more:
# since Slurm 22.05 srun does not take it from sbatch.
n_steps=0
step() {
    local done figures
    ((n_steps > 0)) || skip_steps
    n_steps=$((n_steps + 1))
    done=$(dirname -- "$target")/.shardweld-done-${SLURM_JOB_ID:-0}.$restarts.$n_steps
    code=0
    unproved=0
    srun --mpi="${SHARDWELD_MPI:-pmix}" -K -c "$SLURM_CPUS_PER_TASK" "${program:-shardweld}" "$@" --done "$done" || code=$?
    if ((code == 0)) && ! grep -qsxF '  "code": 0,' "$done"; then
        echo "srun returned 0, but $1 has not told of its end: no rank ran to its end. Look for what a lost node left of other steps (PMIx), and for a full /tmp, on ${SLURM_JOB_NODELIST:-this node}" >&2
        code=10
        unproved=1
    elif ((code == 0)); then
        figures=$(sed -n 's/^  "figures": "\(.*\)",$/\1/p' "$done")
        echo "$1: ${figures:-done}"
    fi
    rm -f -- "$done"
}

# skip_steps: a lost node keeps what PMIx had for a step, and another one of the same number does not start there: the numbers of steps go on from run
# to run.
skip_steps() {
    local skipped
    for ((skipped = 0; skipped < 2 * restarts; ++skipped)); do
        srun --mpi=none --overlap -N 1 -n 1 -c 1 true >/dev/null 2>&1 || :
    done
}

# has_option NAME WORD...: whether the words have --NAME.
has_option() {
    local name=$1
    shift
    [[ " $* " == *" --$name"[=\ ]* ]]
}

# kept: of what an unfinished merge into $target has kept, the bytes of its records, and how many runs wrote some.
kept() {
    find "$(dirname -- "$target")/.$(basename -- "$target").shardweld-partial/journal" "$target/.shardweld-partial/journal" \
        -name '[0-9]*-*' -printf '%s %f\n' 2>/dev/null |
        awk '{ bytes += $1; split($2, run, "-"); if (run[1] > runs) runs = run[1] } END { print bytes + 0, runs + 0 }' || true
}

# merge_to_end OPTIONS: merges into $target, in as many runs of this job as it takes; ends the job. A run that meets its time limit (11) or
# loses ranks (10, above 128) queues again as long as each run keeps something that the one before had not, 20 times at most; one in which no rank came
# as far as that (above 128, or without proof), three times.
merge_to_end() {
    local how=--resume options=() word before after runs again=0
    # --resume begins afresh where there is nothing to go on with, and checks what it reuses; a --restart is for the first run alone. A model that a
    # run before has finished is verified.
    for word in "$@"; do
        case $word in
            --resume) ;;
            --restart) ((restarts > 0)) || how=--restart ;;
            *) options+=("$word") ;;
        esac
    done
    has_option if_complete "$@" || options+=(--if_complete verify)
    has_option report "$@" || options+=(--report "$target.report.json")
    read -r before _ < <(kept)
    step merge "$how" "${options[@]}"
    # A later run's copies on local disks are other files for what was kept, unless they have checksums of their own, as torch's do.
    [[ -z ${stage:-} ]] || ((code != 6 || restarts == 0)) ||
        step merge --restart "${options[@]}"
    read -r after runs < <(kept)
    if ((code == 11 || code == 10 || code > 128)); then
        ((again = after > before || (code == 11 && restarts == 0) || ((code > 128 || unproved) && restarts < runs + 3))) || :
    fi
    ((again == 0 || restarts >= 20)) || queue_again
    ((code != 11)) || echo "run $((restarts + 1)) kept nothing that the one before it had not: give the job more time or a faster disk, then submit it again" >&2
    exit "$code"
}

# queue_again: puts this job back into the queue, which ends this run.
queue_again() {
    echo "code $code after run $((restarts + 1)): queued again"
    scontrol requeue "$SLURM_JOB_ID" && for _ in {1..60}; do sleep 1 || :; done  # until Slurm ends it: an exit of its own may count first
    exit "$code"
}

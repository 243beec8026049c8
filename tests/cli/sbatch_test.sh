#!/usr/bin/env bash
# The job scripts that plan prints: what they ask for, and that any name is one word in them. On a real Slurm: scripts/test-slurm.sh.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
fixture="$TESTS/data/megatron/llama-tp4-legacy-bf16"
mkdir "$WORK/bin"
# Takes the place of Slurm's commands: srun notes its words, one a line, without --done, to which it writes what the program would, and ends with
# $SRUN_CODE; scontrol ends the job that it queues again.
cat >"$WORK/bin/srun" <<'SRUN'
#!/bin/bash
words=("${@:1:$#-2}")
[[ "${*: -2:1}" == --done ]] || { echo "no --done" >&2; exit 99; }
printf '%q\n' "$SLURM_PMIX_FENCE" "${words[@]}" >"$WORK/words"
((${KEPT:-0} == 0)) || { mkdir -p "$JOURNAL" && head -c $((40 * KEPT)) /dev/zero >"$JOURNAL/$((RUNS + 1))-0"; }
[[ -n "${UNPROVED:-}" ]] || printf '{\n  "code": %s,\n  "figures": "1 tensor",\n}\n' "${SRUN_CODE:-0}" >"${@: -1}"
exit "${SRUN_CODE:-0}"
SRUN
printf '#!/bin/bash\n[[ $1 == requeue ]] || exit 1\necho "$@" >>"%s/requeued"\nkill -TERM "$PPID"\n' "$WORK" >"$WORK/bin/scontrol"
printf '#!/bin/bash\necho "debug 30:00"\necho "batch* ${LIMIT:-infinite}"\n' >"$WORK/bin/sinfo"
chmod +x "$WORK"/bin/*
export WORK

expect_line() {
    grep -qxF -- "$1" "$WORK/job" || fail "no line '$1' in: $(<"$WORK/job")"
}

plan_job() { # OPTIONS: the script in $WORK/job
    expect_code 0 "$SHARDWELD" plan --sbatch --hf_config "$fixture/hf" "$@" && cp "$WORK/out" "$WORK/job"
    bash -n "$WORK/job" || fail "no script: plan --sbatch $*"
}

# Ranks: four a node where they are not given. Time: five minutes, and what the rate makes of the bytes.
plan_job --local_dir "$fixture/source" --target_dir "$WORK/out-a"
for line in '#!/bin/bash' '#SBATCH --nodes=1' '#SBATCH --ntasks=4' '#SBATCH --cpus-per-task=2' '#SBATCH --mem-per-cpu=256M' \
    '#SBATCH --time=00:05:00' '#SBATCH --signal=USR1@120' '#SBATCH --requeue'; do
    expect_line "$line"
done
plan_job --local_dir "$fixture/source" --target_dir "$WORK/out-a" --nodes 3
expect_line '#SBATCH --ntasks=12'
plan_job --local_dir "$fixture/source" --target_dir "$WORK/out-a" --nodes 3 --ranks 5 --rate 1
expect_line '#SBATCH --nodes=3'
expect_line '#SBATCH --ntasks=5'
expect_line '#SBATCH --ntasks-per-node=2'
[[ "$(grep -c -- '#SBATCH --time=[0-9][0-9][0-9]*:[0-5][05]:00$' "$WORK/job")" == 1 ]] || fail "time: $(grep time= "$WORK/job")"
! grep -q -- '--time=00' "$WORK/job" || fail "a slow rate makes no long job: $(grep time= "$WORK/job")"

# What the partition does not give is not asked for.
LIMIT=1-02:30:00 PATH="$WORK/bin:$PATH" plan_job --local_dir "$fixture/source" --target_dir "$WORK/out-a" --rate 1
expect_line '#SBATCH --time=26:30:00'
LIMIT=infinite PATH="$WORK/bin:$PATH" plan_job --local_dir "$fixture/source" --target_dir "$WORK/out-a"
expect_line '#SBATCH --time=00:05:00'

# Names with anything in them; options are handed on; paths become absolute.
name='it'\''s; touch pwned; $(touch pwned) `touch pwned` " \ # --'
cp -r "$fixture/source" "$WORK/$name"
cd "$WORK"
plan_job --local_dir "$name" --target_dir "to $name" --dtype fp32 --strict --max-shard-size=100KB
env PATH="$WORK/bin:$PATH" SLURM_CPUS_PER_TASK=2 bash "$WORK/job" >"$WORK/log" || fail "the script ended with $?: $(<"$WORK/log")"
printf '%q\n' ring --mpi=pmix -K -c 2 "$(realpath "$SHARDWELD")" merge --resume --local_dir "$WORK/$name" --hf_config "$fixture/hf" --target_dir "$WORK/to $name" \
    --dtype fp32 --max_shard_size 100KB --strict --report "$WORK/to $name.report.json" --if_complete verify >"$WORK/expected"
diff "$WORK/expected" "$WORK/words" >"$WORK/diff" || fail "the step's words: $(<"$WORK/diff")"
[[ ! -e "$WORK/pwned" ]] || fail "a name was run as a command"

# Each line of the log has a time; it tells of the run and of what was done. 0 without proof is 10.
grep -qE '^[0-9-]{10} [0-9:]{8} run 1 of job' "$WORK/log" && grep -qE '^[0-9-]{10} [0-9:]{8} merge: 1 tensor$' "$WORK/log" || fail "log: $(<"$WORK/log")"
run_script() { # SCRIPT CODE RESTARTS: $code, $WORK/log and $WORK/requeued are of a run of a script of the merge into "made it"
    local from="$fixture/source" to="$WORK/made it"
    [[ $1 != */array.sbatch ]] || { from="$WORK/steps" to="$WORK/made"; }
    rm -f "$WORK/requeued"
    code=0
    env PATH="$WORK/bin:$PATH" SRUN_CODE="$2" SLURM_JOB_ID=7 SLURM_CPUS_PER_TASK=2 SLURM_ARRAY_TASK_ID=1 ${3:+SLURM_RESTART_COUNT=$3} \
        bash "$1" "$from" "$to" --dtype bf16 --report "$WORK/r.json" --include 'a b' >"$WORK/log" 2>&1 || code=$?
    requeued=$(cat "$WORK/requeued" 2>/dev/null | grep -cx 'requeue 7')
}

# Queued again: what kept more than the run before, up to a limit; what never began, a few times; nothing else. The step writes as many records as
# $KEPT says.
echo "$fixture/source" >"$WORK/steps"
slurm="$(cd "$TESTS/../slurm" && pwd)"
name=$(echo "$fixture/source" | sed 's#^/##; s#/#_#g')
plan_job --local_dir "$fixture/source" --target_dir "$WORK/made it" --restart
for script in "$WORK/job" "$slurm/merge.sbatch" "$slurm/array.sbatch"; do
    export JOURNAL="$WORK/.made it.shardweld-partial/journal"
    [[ $script != */array.sbatch ]] || JOURNAL="$WORK/made/.1-$name.shardweld-partial/journal"
    # code:restarts:earlier runs that kept something:records kept by this run:queued again
    for case in 11::0:3:1 11:19:5:3:1 11:20:5:3:0 11::0:0:1 11:1:0:0:0 11:2:2:0:0 10:1:1:2:1 10:1:1:0:0 137:1:1:2:1 139::0:0:1 139:2:0:0:1 139:3:0:0:0 \
        139:7:6:0:1 139:9:6:0:0 6::0:2:0 0::0:2:0 12:1:0:0:0; do
        IFS=: read -r given restarts RUNS KEPT requeues <<<"$case"
        export RUNS KEPT
        rm -rf "${JOURNAL%/*}"
        ((RUNS == 0)) || { mkdir -p "$JOURNAL" && head -c 40 /dev/zero >"$JOURNAL/$RUNS-0"; }
        run_script "$script" "$given" "$restarts"
        [[ "$code" == "$((requeues ? 143 : given))" ]] || fail "srun's code $given: $script ends with $code: $(<"$WORK/log")"
        [[ "$requeued" == "$requeues" ]] || fail "$(basename "$script"), $case: requeued wrongly"
        [[ "$given$requeues" != 110 || "${restarts:-0}" == 20 ]] || grep -q "kept nothing that the one before it had not" "$WORK/log" || fail "stuck: $(<"$WORK/log")"
    done
    rm -rf "${JOURNAL%/*}"
    unset RUNS KEPT
    for case in 0:1 2:1 3:0; do
        UNPROVED=1 run_script "$script" 0 "${case%:*}"
        [[ "$code:$requeued" == "$((${case#*:} ? 143 : 10)):${case#*:}" ]] || fail "$script, 0 without proof, $case: $code, requeued $requeued: $(<"$WORK/log")"
    done
    [[ $script == "$WORK/job" ]] ||
        [[ "$(paste -sd' ' "$WORK/words")" == "ring --mpi=pmix -K -c 2 shardweld merge --resume --local_dir "*" --dtype bf16 --report $WORK/r.json --include a\\ b --if_complete verify" ]] ||
        fail "$script: $(paste -sd' ' "$WORK/words")"
done
for case in 0:1 3:0; do
    UNPROVED=1 run_script "$slurm/test.sbatch" 0 "${case%:*}"
    [[ "$code:$requeued" == "$((${case#*:} ? 143 : 10)):${case#*:}" ]] || fail "test, 0 without proof, $case: $code, requeued $requeued: $(<"$WORK/log")"
done
# Without arguments each tells how it is used.
for script in "$slurm"/*.sbatch "$slurm/chain.sh"; do
    expect_code 2 bash "$script" && expect_text "$(basename "$script")" && ! grep -q '#' "$WORK/err" || fail "usage: $(<"$WORK/err")"
done

# A watch is a process of its script, and its merges are steps: one that was stopped is queued again however often; one that has ended, or never began,
# is not, at some time. The signal before the time limit is passed on.
printf '#!/bin/bash\nprintf "%%q\\n" "$@" >"%s/words"\n[[ -z "${WAIT:-}" ]] || { trap "exit 11" USR1; touch "%s/begun"; while :; do sleep 0.1; done; }\nexit "$WATCH_CODE"\n' \
    "$WORK" "$WORK" >"$WORK/bin/watch"
chmod +x "$WORK/bin/watch"
watch() { # CODE RESTARTS OPTIONS
    rm -f "$WORK/requeued"
    code=0
    env PATH="$WORK/bin:$PATH" program="$WORK/bin/watch" WATCH_CODE="$1" SLURM_JOB_ID=7 SLURM_RESTART_COUNT="$2" SLURM_CPUS_PER_TASK=2 \
        bash "$slurm/watch.sbatch" "$WORK/run" "$WORK/made it" "${@:3}" >"$WORK/log" 2>&1 || code=$?
    requeued=$(cat "$WORK/requeued" 2>/dev/null | grep -cx 'requeue 7')
}
for case in 11:30:1 0:0:0 16:0:0 139:0:1 139:3:0 10:3:0; do
    IFS=: read -r given restarts requeues <<<"$case"
    watch "$given" "$restarts" --until 'a b'
    [[ "$code" == "$((requeues ? 143 : given))" ]] || fail "watch: the code $given became $code: $(<"$WORK/log")"
    [[ "$requeued" == "$requeues" ]] || fail "watch, $case: requeued wrongly"
done
[[ "$(paste -sd' ' "$WORK/words")" == "watch $WORK/run $WORK/made\\ it --until a\\ b --launch srun\\ --mpi=pmix\\ -K\\ -c\\ 2" ]] || fail "watch: $(paste -sd' ' "$WORK/words")"
watch 0 0 --launch 'mpirun -n 2'
[[ "$(paste -sd' ' "$WORK/words")" == "watch $WORK/run $WORK/made\\ it --launch mpirun\\ -n\\ 2" ]] || fail "watch, another launcher: $(paste -sd' ' "$WORK/words")"
(
    for ((i = 0; i < 100; ++i)); do [[ ! -e "$WORK/begun" ]] || break; sleep 0.1; done
    pkill -USR1 -f "bash $slurm/watch.sbatch $WORK/run"
) &
WAIT=1 watch 0 0
[[ "$code:$requeued" == 143:1 ]] || fail "watch, USR1: $code, requeued $requeued: $(<"$WORK/log")"
rm -r "$WORK/made it"

# The test behind a merge takes the merge's options, and leaves out what it does not have.
expect_code 0 "$SHARDWELD" merge --local_dir "$fixture/source" --hf_config "$fixture/hf" --target_dir "$WORK/half" --include 'layers\.0' --dtype fp32 -q
of_merge=(--local_dir "$fixture/source" --hf_config "$fixture/hf" --test_hf_dir "$WORK/half" --include 'layers\.0' --dtype fp32 --overwrite --resume --sha256
    --report "$WORK/none.json" --max-shard-size=1MB --if_complete verify --also "$WORK/x:bf16" --stop_before 1m --check_crc before -q)
expect_code 0 "$SHARDWELD" test --of_merge "${of_merge[@]}"
expect_absent "$WORK/none.json"
expect_code 2 "$SHARDWELD" test "${of_merge[@]}"
expect_code 2 "$SHARDWELD" test --of_merge "${of_merge[@]}" --no_such_option && expect_text no_such_option

# The files that a merge reads, with their bytes.
expect_code 0 "$SHARDWELD" plan --inputs --local_dir "$fixture/source" --hf_config "$fixture/hf"
(cd "$fixture/source" && find "$PWD" -name '*.pt' -printf '%s %p\n' | sort) | diff - <(sort "$WORK/out") >"$WORK/diff" || fail "inputs: $(<"$WORK/diff")"

# What merge alone does is handed on too.
printf '#!/bin/bash\necho "repo_id --private"\n' >"$WORK/bin/hf"
chmod +x "$WORK/bin/hf"
export HF_TOKEN=hf_none
plan_job --local_dir "$fixture/source" --target_dir "$WORK/made it" --overwrite --resume --check_crc --sha256 --report "$WORK/report.json" --stop_before 2m \
    --exclude=-x --hf_upload_path me/model --private --hf_cli "$WORK/bin/hf" --if_complete skip
env PATH="$WORK/bin:$PATH" SLURM_CPUS_PER_TASK=2 bash "$WORK/job" >"$WORK/log" 2>&1
printf '%q\n' ring --mpi=pmix -K -c 2 "$(realpath "$SHARDWELD")" merge --resume --local_dir "$fixture/source" --hf_config "$fixture/hf" --check_crc before \
    --target_dir "$WORK/made it" --overwrite --if_complete skip --report "$WORK/report.json" --sha256 --exclude=-x --hf_upload_path me/model --private \
    --hf_cli "$WORK/bin/hf" --stop_before 2m | diff - "$WORK/words" >"$WORK/diff" || fail "the upload's words: $(<"$WORK/diff")"
expect_code 2 "$SHARDWELD" plan --local_dir "$fixture/source" --hf_config "$fixture/hf" --hf_upload_path model && expect_text 'model is not a repository'

refused=("$SHARDWELD" plan --local_dir "$fixture/source" --hf_config "$fixture/hf")
expect_code 2 "${refused[@]}" --nodes 2 && expect_text '--sbatch'
expect_code 2 "${refused[@]}" --sbatch --partition 'a b' && expect_text '#SBATCH'
expect_code 2 "${refused[@]}" --sbatch --json
expect_code 2 "${refused[@]}" --sbatch --nodes 0 && expect_text '--nodes'
expect_code 2 "${refused[@]}" --sbatch --nodes 5 --ranks 4 && expect_text 'give each node at least one rank'
expect_code 2 "${refused[@]}" --sbatch --nodes 99999999999 && expect_text '--nodes'
finish

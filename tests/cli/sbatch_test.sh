#!/usr/bin/env bash
# The job scripts that plan prints: what they ask for, and that any name is one word in them. On a real Slurm: scripts/test-slurm.sh.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
fixture="$TESTS/data/megatron/llama-tp4-legacy-bf16"
mkdir "$WORK/bin"
# Takes the place of Slurm's commands: srun notes its words, one a line, and ends with $SRUN_CODE; scontrol ends the job that it queues again.
printf '#!/bin/bash\nprintf "%%q\\n" "$@" >"%s/words"\nexit "${SRUN_CODE:-0}"\n' "$WORK" >"$WORK/bin/srun"
printf '#!/bin/bash\necho "$@" >>"%s/requeued"\nkill -TERM "$PPID"\n' "$WORK" >"$WORK/bin/scontrol"
chmod +x "$WORK"/bin/*

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
[[ "$(grep -c -- '#SBATCH --time=[0-9][0-9][0-9]*:[0-5][05]:00$' "$WORK/job")" == 1 ]] || fail "time: $(grep time= "$WORK/job")"
! grep -q -- '--time=00' "$WORK/job" || fail "a slow rate makes no long job: $(grep time= "$WORK/job")"

# Names with anything in them; options are handed on; paths become absolute.
name='it'\''s; touch pwned; $(touch pwned) `touch pwned` " \ # --'
cp -r "$fixture/source" "$WORK/$name"
cd "$WORK"
plan_job --local_dir "$name" --target_dir "to $name" --dtype fp32 --strict --max-shard-size=100KB
env PATH="$WORK/bin:$PATH" bash "$WORK/job" || fail "the script ended with $?"
printf '%q\n' --mpi=pmix -K -c 2 "$(realpath "$SHARDWELD")" merge --resume --local_dir "$WORK/$name" --hf_config "$fixture/hf" --target_dir "$WORK/to $name" \
    --dtype fp32 --max_shard_size 100KB --strict --report "$WORK/to $name.report.json" --if_complete verify >"$WORK/expected"
diff "$WORK/expected" "$WORK/words" >"$WORK/diff" || fail "the step's words: $(<"$WORK/diff")"
[[ ! -e "$WORK/pwned" ]] || fail "a name was run as a command"

# Queued again: what kept more than the run before, up to a limit; what crashed before it kept anything, a few times; nothing else. The step writes
# as many records as $KEPT says.
cat >"$WORK/bin/srun" <<'SRUN'
#!/bin/bash
echo "$SLURM_PMIX_FENCE" >"$WORK/fence"
((${KEPT:-0} == 0)) || { mkdir -p "$JOURNAL" && head -c $((40 * KEPT)) /dev/zero >"$JOURNAL/$((RUNS + 1))-0"; }
exit "$SRUN_CODE"
SRUN
export WORK JOURNAL="$WORK/.made it.shardweld-partial/journal"
plan_job --local_dir "$fixture/source" --target_dir "$WORK/made it" --restart
for script in "$WORK/job" "$TESTS/../slurm/resume.sbatch"; do
    # code:restarts:earlier runs that kept something:records kept by this run:queued again
    for case in 11::0:3:1 11:19:5:3:1 11:20:5:3:0 11::0:0:1 11:1:0:0:0 11:2:2:0:0 10:1:1:2:1 10:1:1:0:0 137:1:1:2:1 139::0:0:1 139:2:0:0:1 139:3:0:0:0 \
        139:7:6:0:1 139:9:6:0:0 6::0:2:0 0::0:2:0 12:1:0:0:0; do
        IFS=: read -r given restarts runs kept requeues <<<"$case"
        rm -rf "$WORK/requeued" "$WORK/.made it.shardweld-partial"
        ((runs == 0)) || { mkdir -p "$JOURNAL" && head -c 40 /dev/zero >"$JOURNAL/$runs-0"; }
        code=0
        env PATH="$WORK/bin:$PATH" SRUN_CODE="$given" KEPT="$kept" RUNS="$runs" SLURM_JOB_ID=7 SLURM_CPUS_PER_TASK=2 \
            ${restarts:+SLURM_RESTART_COUNT=$restarts} bash "$script" "$fixture/source" "$WORK/made it" 2>"$WORK/err" || code=$?
        [[ "$code" == "$((requeues ? 143 : given))" ]] || fail "srun's code $given: $script ends with $code: $(<"$WORK/err")"
        [[ "$(cat "$WORK/requeued" 2>/dev/null | grep -cx 'requeue 7')" == "$requeues" ]] || fail "$(basename "$script"), $case: requeued wrongly"
        [[ "$given$requeues" != 110 || "${restarts:-0}" == 20 ]] || expect_text "kept nothing that the one before it had not"
    done
done
rm -rf "$WORK/.made it.shardweld-partial"
[[ "$(<"$WORK/fence")" == ring ]] || fail "SLURM_PMIX_FENCE=$(<"$WORK/fence")"

# The other scripts that merge: a crash before anything was begun is tried again, thrice; every option is handed on, a report is not doubled.
printf '#!/bin/bash\nprintf "%%q\\n" "$SLURM_PMIX_FENCE" "$@" >"%s/words"\nexit "${SRUN_CODE:-0}"\n' "$WORK" >"$WORK/bin/srun"
echo "$fixture/source" >"$WORK/steps"
for script in one_node many_nodes array; do
    from="$fixture/source" to="$WORK/made it"
    [[ $script != array ]] || { from="$WORK/steps" to="$WORK/made"; }
    for case in 139:0:1 139:2:1 139:3:0 11:0:0 3:0:0; do
        IFS=: read -r given restarts requeues <<<"$case"
        rm -f "$WORK/requeued"
        code=0
        env PATH="$WORK/bin:$PATH" SRUN_CODE="$given" SLURM_JOB_ID=7 SLURM_RESTART_COUNT="$restarts" SLURM_CPUS_PER_TASK=2 SLURM_ARRAY_TASK_ID=1 \
            bash "$TESTS/../slurm/$script.sbatch" "$from" "$to" --dtype bf16 --report "$WORK/r.json" --include 'a b' || code=$?
        [[ "$code" == "$((requeues ? 143 : given))" ]] || fail "$script: srun's code $given became $code"
        [[ "$(cat "$WORK/requeued" 2>/dev/null | grep -cx 'requeue 7')" == "$requeues" ]] || fail "$script, $case: requeued wrongly"
    done
    [[ "$(paste -sd' ' "$WORK/words")" == "ring --mpi=pmix -K -c 2 shardweld merge --local_dir "*" --dtype bf16 --report $WORK/r.json --include a\\ b --if_complete verify" ]] ||
        fail "$script: $(paste -sd' ' "$WORK/words")"
done

# A watch that was stopped is queued again however often; one that has ended, or crashes at once, is not.
for case in 11:30:1 0:0:0 16:0:0 139:0:0; do
    IFS=: read -r given restarts requeues <<<"$case"
    rm -f "$WORK/requeued"
    code=0
    env PATH="$WORK/bin:$PATH" SRUN_CODE="$given" SLURM_JOB_ID=7 SLURM_RESTART_COUNT="$restarts" SLURM_CPUS_PER_TASK=2 \
        bash "$TESTS/../slurm/watch.sbatch" "$WORK/run" "$WORK/made it" --until 'a b' 2>/dev/null || code=$?
    [[ "$code" == "$((requeues ? 143 : given))" ]] || fail "watch: srun's code $given became $code"
    [[ "$(cat "$WORK/requeued" 2>/dev/null | grep -cx 'requeue 7')" == "$requeues" ]] || fail "watch, $case: requeued wrongly"
done
[[ "$(paste -sd' ' "$WORK/words")" == "ring --mpi=pmix -K -c 2 shardweld watch $WORK/run $WORK/made\\ it --until a\\ b" ]] || fail "watch: $(paste -sd' ' "$WORK/words")"

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
printf '#!/bin/bash\nprintf "%%q\\n" "$@" >"%s/words"\n' "$WORK" >"$WORK/bin/srun"
plan_job --local_dir "$fixture/source" --target_dir "$WORK/made it" --overwrite --resume --check_crc --sha256 --report "$WORK/report.json" --stop_before 2m \
    --exclude=-x --hf_upload_path me/model --private --hf_cli "$WORK/bin/hf" --if_complete skip
env PATH="$WORK/bin:$PATH" bash "$WORK/job"
printf '%q\n' --mpi=pmix -K -c 2 "$(realpath "$SHARDWELD")" merge --resume --local_dir "$fixture/source" --hf_config "$fixture/hf" --check_crc before \
    --target_dir "$WORK/made it" --overwrite --if_complete skip --report "$WORK/report.json" --sha256 --exclude=-x --hf_upload_path me/model --private \
    --hf_cli "$WORK/bin/hf" --stop_before 2m | diff - "$WORK/words" >"$WORK/diff" || fail "the upload's words: $(<"$WORK/diff")"
expect_code 2 "$SHARDWELD" plan --local_dir "$fixture/source" --hf_config "$fixture/hf" --hf_upload_path model && expect_text 'model is not a repository'

refused=("$SHARDWELD" plan --local_dir "$fixture/source" --hf_config "$fixture/hf")
expect_code 2 "${refused[@]}" --nodes 2 && expect_text '--sbatch'
expect_code 2 "${refused[@]}" --rate 1GB && expect_text '--sbatch'
expect_code 2 "${refused[@]}" --sbatch --json && expect_text 'exclude'
expect_code 2 "${refused[@]}" --sbatch --nodes 0 && expect_text '--nodes'
expect_code 2 "${refused[@]}" --sbatch --nodes 5 --ranks 4 && expect_text 'give each node at least one rank'
expect_code 2 "${refused[@]}" --sbatch --nodes 99999999999 && expect_text '--nodes'
finish

#!/usr/bin/env bash
# The job scripts that plan prints: what they ask for, and that any name is one word in them. On a real Slurm: scripts/test-slurm.sh.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
fixture="$TESTS/data/megatron/llama-tp4-legacy-bf16"
mkdir "$WORK/bin"
# Takes the place of Slurm's commands: srun notes its words, one a line, and ends with $SRUN_CODE.
printf '#!/bin/bash\nprintf "%%q\\n" "$@" >"%s/words"\nexit "${SRUN_CODE:-0}"\n' "$WORK" >"$WORK/bin/srun"
printf '#!/bin/bash\necho "$@" >>"%s/requeued"\n' "$WORK" >"$WORK/bin/scontrol"
chmod +x "$WORK"/bin/*

expect_line() {
    checks=$((checks + 1))
    grep -qxF -- "$1" "$WORK/job" || fail "no line '$1' in: $(<"$WORK/job")"
}

plan_job() { # OPTIONS: the script in $WORK/job
    expect_code 0 "$SHARDWELD" plan --sbatch --hf_config "$fixture/hf" "$@" && cp "$WORK/out" "$WORK/job"
    checks=$((checks + 1))
    bash -n "$WORK/job" || fail "no script: plan --sbatch $*"
}

# Ranks: four a node where they are not given. Time: five minutes, and what the rate makes of the bytes.
plan_job --local_dir "$fixture/source" --target_dir "$WORK/out-a"
for line in '#!/bin/bash' '#SBATCH --nodes=1' '#SBATCH --ntasks=4' '#SBATCH --cpus-per-task=2' '#SBATCH --mem-per-cpu=256M' \
    '#SBATCH --time=00:05:00' '#SBATCH --signal=USR1@120' '#SBATCH --requeue'; do
    expect_line "$line"
done
plan_job --local_dir "$fixture/source" --nodes 3
expect_line '#SBATCH --ntasks=12'
plan_job --local_dir "$fixture/source" --nodes 3 --ranks 5 --rate 1
expect_line '#SBATCH --nodes=3'
expect_line '#SBATCH --ntasks=5'
checks=$((checks + 1))
[[ "$(grep -c -- '#SBATCH --time=[0-9][0-9][0-9]*:[0-5][05]:00$' "$WORK/job")" == 1 ]] || fail "time: $(grep time= "$WORK/job")"
! grep -q -- '--time=00' "$WORK/job" || fail "a slow rate makes no long job: $(grep time= "$WORK/job")"

# Names with anything in them; options are handed on; paths become absolute.
name='it'\''s; touch pwned; $(touch pwned) `touch pwned` " \ # --'
cp -r "$fixture/source" "$WORK/$name"
cd "$WORK"
plan_job --local_dir "$name" --target_dir "to $name" --dtype fp32 --strict --max-shard-size=100KB
checks=$((checks + 3))
env PATH="$WORK/bin:$PATH" bash "$WORK/job" || fail "the script ended with $?"
printf '%q\n' --mpi=pmix -K -c 2 "$(realpath "$SHARDWELD")" merge --resume --local_dir "$WORK/$name" --hf_config "$fixture/hf" --target_dir "$WORK/to $name" \
    --dtype fp32 --max_shard_size 100KB --strict --report "$WORK/to $name.report.json" >"$WORK/expected"
diff "$WORK/expected" "$WORK/words" >"$WORK/diff" || fail "the step's words: $(<"$WORK/diff")"
[[ ! -e "$WORK/pwned" ]] || fail "a name was run as a command"

# Code 11 queues the job again, up to a limit; no other code does.
for case in 11::11:1 11:19:11:1 11:20:11:0 6::6:0 0::0:0; do
    IFS=: read -r given restarts expected requeues <<<"$case"
    rm -f "$WORK/requeued"
    code=0
    env PATH="$WORK/bin:$PATH" SRUN_CODE="$given" SLURM_JOB_ID=7 ${restarts:+SLURM_RESTART_COUNT=$restarts} bash "$WORK/job" || code=$?
    checks=$((checks + 2))
    [[ "$code" == "$expected" ]] || fail "srun's code $given: the script ends with $code"
    [[ "$(cat "$WORK/requeued" 2>/dev/null | grep -cx 'requeue 7')" == "$requeues" ]] || fail "code $given after ${restarts:-no} restarts: requeued wrongly"
done

# Queued again behind a merge that is done: the model is compared, exactly and with the same options, and not merged again; what a run left goes
# first.
plan_job --local_dir "$fixture/source" --target_dir "$WORK/made it" --dtype fp32 --report "$WORK/report.json"
run_again() { # NAME CODE COMMANDS [SRUN_CODE]
    local code=0
    : >"$WORK/steps"
    env PATH="$WORK/bin:$PATH" SRUN_CODE="${4:-0}" SLURM_RESTART_COUNT=1 SLURM_JOB_ID=7 bash "$WORK/job" 2>"$WORK/err" || code=$?
    checks=$((checks + 2))
    [[ "$code" == "$2" ]] || fail "$1: the script ends with $code, expected $2"
    [[ "$(paste -sd' ' "$WORK/steps")" == "$3" ]] || fail "$1: steps $(paste -sd' ' "$WORK/steps"), expected $3"
}
sed -i "s,^exit,echo \"\$6\" >>'$WORK/steps'\n&," "$WORK/bin/srun"
run_again "no model" 0 merge
mkdir "$WORK/made it"
echo '{"model_type": "llama"}' >"$WORK/made it/config.json"
run_again "a model" 0 test
expect_text "$WORK/made it holds this model already"
checks=$((checks + 1))
printf '%q\n' --mpi=pmix -K -c 2 "$(realpath "$SHARDWELD")" test --local_dir "$fixture/source" --hf_config "$fixture/hf" --dtype fp32 \
    --test_hf_dir "$WORK/made it" --strict_dtype --atol 0 --rtol 0 | diff - "$WORK/words" >"$WORK/diff" || fail "the test's words: $(<"$WORK/diff")"
run_again "another model" 13 "test merge" 13
mkdir "$WORK/.made it.shardweld-partial"
run_again "work" 0 merge
rmdir "$WORK/.made it.shardweld-partial"
mkdir "$WORK/made it/.shardweld-partial"
run_again "work in the target" 0 merge
rmdir "$WORK/made it/.shardweld-partial"

# What merge alone does is handed on too; a merge that uploads is not left out because the model is there.
printf '#!/bin/bash\necho "repo_id --private"\n' >"$WORK/bin/hf"
chmod +x "$WORK/bin/hf"
export HF_TOKEN=hf_none
plan_job --local_dir "$fixture/source" --target_dir "$WORK/made it" --overwrite --resume --check_crc --sha256 --report "$WORK/report.json" --stop_before 2m \
    --exclude=-x --hf_upload_path me/model --private --hf_cli "$WORK/bin/hf"
run_again "an upload" 0 merge
checks=$((checks + 1))
printf '%q\n' --mpi=pmix -K -c 2 "$(realpath "$SHARDWELD")" merge --resume --local_dir "$fixture/source" --hf_config "$fixture/hf" --check_crc before \
    --target_dir "$WORK/made it" --overwrite --report "$WORK/report.json" --sha256 --exclude=-x --hf_upload_path me/model --private \
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

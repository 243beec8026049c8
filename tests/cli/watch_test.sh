#!/usr/bin/env bash
# watch beside a scripted trainer of each framework, which writes slowly, dies, begins again and deletes: each step is made once, none before its
# save has ended, with the bytes of a plain merge.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset OMPI_MCA_odls_base_sigkill_timeout  # ranks that are stopped need their second
DATA="$TESTS/data"
DCP="$DATA/torch/dcp_w2_bf16_qwen2"
interval=0.1

# watching RUN OUT [options]: in the background, quietly; $watch is its process.
watching() {
    local run="$1" out="$2"
    shift 2
    "$SHARDWELD" watch "$run" "$out" --interval "$interval" --no_fsync -q "${launch[@]}" "${polite[@]}" "$@" >"$out.log" 2>&1 &
    watch=$!
}
launch=()
polite=()

# await WHAT COMMAND...: until it succeeds, for thirty seconds at most: a watch is nice, and other tests are not.
await() {
    local what="$1"
    shift
    for ((i = 0; i < 600; ++i)); do
        "$@" 2>/dev/null && return
        sleep 0.05
    done
    fail "never came: $what"
}

# happened OUT EVENT STEP: how often.
happened() {
    grep -c "\"event\":\"$2\",\"step\":\"$3\"" "$1/watch.jsonl" 2>/dev/null || :
}

made() {
    [[ "$(happened "$1" made "$2")" -ge 1 ]]
}

ended() { # CODE OUT: of the watch in the background
    local code=0
    wait "$watch" || code=$?
    [[ "$code" == "$1" ]] || fail "$2: the watch ended with $code, not $1: $(cat "$2.log")"
}

# The trainer: a step of the DCP fixture, its sign last.
save() { # DIRECTORY
    mkdir -p "$1"
    cp "$DCP/source/"*.distcp "$1"
    sleep "${pause:-0}"
    cp "$DCP/source/.metadata" "$1"
}

# Each framework's last file is missing longer than files have to be quiet; then it comes. Files are those of the fixture, below PLACE of the run.
framework() { # NAME FIXTURE PLACE STEP SIGN...: signs are relative to the run
    local name="$1" fixture="$2" place="$3" step="$4" out="$WORK/out-$1"
    shift 4
    local run="$WORK/run-$name" config=() sign
    [[ -n "$(find "$DATA/$fixture/source" -type d -name huggingface)" ]] || config=(--hf_config "$DATA/$fixture/hf")
    mkdir -p "$run"
    watching "$run" "$out" "${config[@]}" --until "$run/END"
    mkdir -p "$run/$place" "$WORK/signs-$name"
    cp -r "$DATA/$fixture/source/." "$WORK/all-$name"
    for sign in "$@"; do
        mkdir -p "$WORK/signs-$name/$(dirname "$sign")"
        mv "$WORK/all-$name/${sign#"${place#.}"/}" "$WORK/signs-$name/$sign" 2>/dev/null || echo '{}' >"$WORK/signs-$name/$sign"
    done
    cp -r "$WORK/all-$name/." "$run/$place"
    # What an earlier save has claimed is no claim of this one.
    [[ "$*" != *latest_checkpointed* ]] || echo 1 >"$run/latest_checkpointed_iteration.txt"
    sleep 0.7
    [[ ! -e "$out/$step" ]] && ! grep -qs '"merging"' "$out/watch.jsonl" || fail "$name: merged before its save had ended"
    cp -r "$WORK/signs-$name/." "$run"
    touch "$run/END"
    ended 0 "$out"
    expect_code 0 "$SHARDWELD" merge "$run/${step_path:-$step}" "$WORK/plain-$name" "${config[@]}" -q --no_fsync
    [[ "$(sum_of "$out/$step")" == "$(sum_of "$WORK/plain-$name")" ]] || fail "$name: not what a merge writes"
    [[ "$(happened "$out" made "$step")" == 1 ]] || fail "$name: made $(happened "$out" made "$step") times"
}

# together NAME COMMAND...: in the background, with a place of its own.
all=()
together() {
    local name="$1"
    shift
    (
        WORK="$WORK/$name" failures=0
        mkdir "$WORK"
        "$@"
        exit "$failures"
    ) &
    all+=($!)
}
all_end() {
    for one in "${all[@]}"; do
        wait "$one" || failures=$((failures + $?))
    done
    all=()
}

together verl framework verl megatron/verl-qwen3-tp2-pp2-torchdist-bf16 . global_step_10 latest_checkpointed_iteration.txt
together contents framework contents megatron/verl-qwen3-tp2-pp2-torchdist-bf16 . global_step_10 global_step_10/actor/ckpt_contents.json
together megatron framework megatron megatron/qwen2-tp2-pp2-torchdist-bf16 . iter_0000010 iter_0000010/metadata.json
together legacy framework legacy megatron/llama-tp4-legacy-bf16 . iter_0000010 latest_checkpointed_iteration.txt
together deepspeed framework deepspeed deepspeed/zero2_w2_tied . global_step2 latest
together trainer framework trainer torch/dcp_w2_bf16_qwen2 checkpoint-5/pytorch_model_fsdp_0 checkpoint-5 checkpoint-5/trainer_state.json
together accelerate framework accelerate torch/dcp_w2_bf16_qwen2 checkpoint_5/pytorch_model_fsdp_0 checkpoint_5 checkpoint_5/random_states_0.pkl
step_path=v0/ckpt/step-7 together nested framework nested torch/dcp_w2_bf16_qwen2 v0/ckpt/step-7 step-7 v0/ckpt/step-7/.metadata

model="$WORK/plain"
# The card tells the step's number, which the fixture has not.
sum_of_model() {
    (cd "$1" && find . -type f ! -name shardweld_report.json ! -name README.md | sort | xargs sha256sum | sha256sum)
}
expect_code 0 "$SHARDWELD" merge "$DCP/source" "$model" --hf_config "$DCP/hf" -q --no_fsync
plain="$(sum_of_model "$model")"
same() { # OUT STEP...
    for step in "${@:2}"; do
        [[ "$(sum_of_model "$1/$step")" == "$plain" ]] || fail "$1/$step is not what a merge writes"
        [[ "$(happened "$1" made "$step")" == 1 ]] || fail "$1/$step was made $(happened "$1" made "$step") times"
    done
}

# A trainer that dies in a save and begins it again; a watch that is killed in a merge; a second one meanwhile. With one rank and with three.
dies() { # RANKS
    local ranks="$1"
    run="$WORK/run-$ranks" out="$WORK/out-$ranks"
    launch=()
    ((ranks == 1)) || launch=(--launch "mpirun -n $ranks")
    config=(--hf_config "$DCP/hf")
    mkdir -p "$run"
    watching "$run" "$out" "${config[@]}" --bw_limit 5K
    mkdir "$run/step-2" && cp "$DCP/source/__0_0.distcp" "$run/step-2"
    save "$run/step-1"
    await "a merge of step-1" test -e "$out/.step-1.shardweld-partial"
    expect_code 15 "$SHARDWELD" watch "$run" "$out" "${config[@]}" --idle_exit 0 && expect_text "there is one watch for each OUT"
    kill -KILL "$watch"
    wait "$watch" 2>/dev/null
    expect_absent "$out/step-1"
    # What was begun is of other files than those that are there now.
    ((ranks > 1)) || save "$run/step-1"
    watching "$run" "$out" "${config[@]}" --until "$run/END"
    pause=0.4 save "$run/step-2"
    save "$run/step-3"
    touch "$run/END"
    ended 0 "$out"
    same "$out" step-1 step-2 step-3
    expect_absent "$out/.step-1.shardweld-partial"
    # What is there is not made again, and a signal ends the wait.
    watching "$run" "$out" "${config[@]}"
    await "a look at step-3" eval '[[ "$(happened "$out" complete step-3)" == 1 ]]'
    kill -TERM "$watch"
    ended 11 "$out"
    same "$out" step-1 step-2 step-3
    ((ranks == 1)) || return
    # A run that began again has written a step anew, while nobody watched.
    save "$run/step-3"
    watching "$run" "$out" "${config[@]}" --idle_exit 0
    ended 0 "$out"
    [[ "$(happened "$out" made step-3)" == 2 && "$(sum_of_model "$out/step-3")" == "$plain" ]] || fail "a step was written again, and not made"
    watching "$run" "$out" "${config[@]}" --idle_exit 0 --dtype fp32
    ended 16 "$out"
    [[ "$(sum_of_model "$out/step-3")" == "$plain" ]] || fail "an output of other options was replaced"
}

# Steps that are deleted while they are read: said, and the next is made.
deletes() { # HOW: of --on_lost
    local how="$1" launch=()
    [[ $how == error ]] || launch=(--launch "mpirun -n 2")
    run="$WORK/run-$how" out="$WORK/out-$how"
    save "$run/step-1"
    watching "$run" "$out" --hf_config "$DCP/hf" --bw_limit 100K --until "$run/END" --on_lost "$how"
    await "a merge of step-1" test -e "$out/.step-1.shardweld-partial/model.safetensors"
    rm -rf "$run/step-1"
    save "$run/step-2"
    touch "$run/END"
    ended "$([[ $how == skip ]] && echo 0 || echo 16)" "$out"
    same "$out" step-2
    [[ "$(happened "$out" lost step-1)" == 1 ]] || fail "no word of the lost step: $(cat "$out/watch.jsonl")"
    expect_absent "$out/.step-1.shardweld-partial"
}

# Old outputs go, but no others; what went is not made again. The command: words as they are, its failure said, the end not 0.
keeps() {
    run="$WORK/run-keep" out="$WORK/out-keep"
    for step in 5 10 15 20 30; do
        save "$run/step-$step"
    done
    mkdir -p "$out" && cp -r "$model" "$out/step-1"
    printf '#!/bin/bash\necho "$SHARDWELD_STEP $SHARDWELD_OUTPUT $(test -f "$SHARDWELD_REPORT" && echo report) $1|$2" >>"%s"\n[[ $SHARDWELD_STEP != step-20 ]]\n' \
        "$WORK/ran" >"$WORK/then.sh"
    chmod +x "$WORK/then.sh"
    for again in 1 2; do
        watching "$run" "$out" --hf_config "$DCP/hf" --idle_exit 0.5 --keep 2 --every 10 --from step-10 --then "$WORK/then.sh 'a  b' \$HOME" --metrics "$WORK/metrics"
        ended 16 "$out"
        [[ "$(ls "$out")" == $'step-1\nstep-20\nstep-30\nwatch.jsonl' ]] || fail "--keep, run $again: $(ls "$out")"
        same "$out" step-20 step-30
        [[ "$(happened "$out" made step-10)" == 1 && "$(happened "$out" made step-5)" == 0 ]] || fail "--every, --from: $(cat "$out/watch.jsonl")"
        steps=(10 20 30)
        ((again == 1)) || steps+=(20)
        diff "$WORK/ran" <(for step in "${steps[@]}"; do echo "step-$step $out/step-$step report a  b|\$HOME"; done) || fail "--then, run $again"
        grep -qx "shardweld_watch_steps_made_total $((again == 1 ? 3 : 0))" "$WORK/metrics" || fail "metrics: $(cat "$WORK/metrics")"
    done
    grep -q "without its command (--then): step-20" "$out.log" || fail "the failure of --then is not said: $(cat "$out.log")"
}

# A step that cannot be merged does not hold up the next.
goes_on() {
    run="$WORK/run-bad" out="$WORK/out-bad"
    save "$run/step-1" && truncate -s 50000 "$run/step-1/__0_0.distcp"
    save "$run/step-2"
    watching "$run" "$out" --hf_config "$DCP/hf" --idle_exit 0.5 --also "$WORK/fp32:fp32" --then "sh -c 'echo \$SHARDWELD_STEP >\$SHARDWELD_OUTPUT.txt'"
    ended 16 "$out"
    grep -q "1 step not finished: step-1" "$out.log" || fail "the end does not tell: $(cat "$out.log")"
    same "$out" step-2
    [[ "$(cat "$out/step-2.txt")" == step-2 && -e "$WORK/fp32/step-2/model.safetensors" ]] || fail "a shell behind --then, or --also"
}

# Each step to a branch of its own. An upload that fails is done by the next watch, and none twice.
uploads() {
    local run="$WORK/run-up" out="$WORK/out-up"
    save "$run/step-1" && save "$run/step-2"
    printf '#!/bin/sh\nif [ "$2" = --help ]; then echo REPO_ID; exit 0; fi\necho "$@" >>"%s"\ncase "$*" in *step-2*) [ -e "%s" ];; esac\n' \
        "$WORK/sent" "$WORK/network" >"$WORK/client"
    chmod +x "$WORK/client"
    for code in 16 0 0; do
        HF_TOKEN=hf_abcdefghijklmnop watching "$run" "$out" --hf_config "$DCP/hf" --idle_exit 0 --hf_upload_path me/model --revision 'at-step-{n}' --hf_cli "$WORK/client" \
            --then "/bin/sh -c 'echo \$SHARDWELD_STEP >>$WORK/told'"
        ended "$code" "$out"
        touch "$WORK/network"
    done
    [[ "$(grep -o 'at-step-[0-9]*' "$WORK/sent" | paste -sd' ')" == "at-step-1 at-step-2 at-step-2" ]] || fail "uploads: $(cat "$WORK/sent")"
    [[ "$(paste -sd' ' "$WORK/told")" == "step-1 step-2" ]] || fail "--then behind an upload: $(cat "$WORK/told")"
}

# What is still owed is named at the end: a step without its index, an empty one, one with a shard that is newer than its tracker, one without a tracker.
owes() {
    local run="$WORK/run-owes" out="$WORK/out-owes" legacy="$DATA/megatron/llama-tp4-legacy-bf16"
    save "$run/step-1" && save "$run/step-2" && rm "$run/step-2/.metadata"
    mkdir "$run/step-3"
    watching "$run" "$out" --hf_config "$DCP/hf" --idle_exit 0
    ended 16 "$out"
    same "$out" step-1
    grep -q "2 steps never complete: step-2 (waiting for .metadata), step-3 (waiting for its files)" "$out.log" || fail "what is owed: $(cat "$out.log")"
    for how in newer none; do
        run="$WORK/run-$how" out="$WORK/out-$how"
        mkdir "$run" && cp -r "$legacy/source/." "$run"
        if [[ $how == none ]]; then rm "$run/latest_checkpointed_iteration.txt"; else touch -d '+1 minute' "$run"/iter_*/mp_rank_02/*.pt; fi
        watching "$run" "$out" --hf_config "$legacy/hf" --idle_exit 0
        ended 16 "$out"
        [[ ! -e "$out/iter_0000010" ]] && grep -q "1 step never complete: iter_0000010" "$out.log" || fail "$how: $(cat "$out.log")"
    done
}

# Behind a step that the trainer has deleted: what failed is done by the next watch, and until then --keep leaves the output.
deleted() {
    local run="$WORK/run-deleted" out="$WORK/out-deleted" code
    save "$run/step-1" && save "$run/step-2" && save "$run/step-3"
    printf '#!/bin/sh\nif [ "$2" = --help ]; then echo REPO_ID; exit 0; fi\necho "$@" >>"%s"\ncase "$*" in *step-1*) [ -e "%s" ];; esac\n' \
        "$WORK/sent" "$WORK/network" >"$WORK/client"
    printf '#!/bin/sh\necho $SHARDWELD_STEP >>"%s"\n[ $SHARDWELD_STEP != step-2 ] || [ -e "%s" ]\n' "$WORK/told" "$WORK/network" >"$WORK/hook"
    chmod +x "$WORK/client" "$WORK/hook"
    for code in 16 0 0; do
        HF_TOKEN=hf_abcdefghijklmnop watching "$run" "$out" --hf_config "$DCP/hf" --idle_exit 0 --hf_upload_path me/model --revision 'at-step-{n}' --hf_cli "$WORK/client" \
            --then "$WORK/hook" --keep 1
        ended "$code" "$out"
        if [[ $code == 16 ]]; then
            [[ "$(ls "$out")" == $'step-1\nstep-2\nstep-3\nwatch.jsonl' ]] || fail "--keep removed what is owed: $(ls "$out")"
            grep -q "1 step not uploaded: step-1; 2 steps without its command (--then): step-1, step-2" "$out.log" || fail "what is owed: $(cat "$out.log")"
            rm -rf "$run/step-1" "$run/step-2"
            touch "$WORK/network"
        fi
    done
    [[ "$(ls "$out")" == $'step-3\nwatch.jsonl' ]] || fail "--keep, once all is done: $(ls "$out")"
    [[ "$(grep -o 'at-step-[0-9]*' "$WORK/sent" | paste -sd' ')" == "at-step-1 at-step-2 at-step-3 at-step-1" ]] || fail "uploads: $(cat "$WORK/sent")"
    [[ "$(paste -sd' ' "$WORK/told")" == "step-2 step-3 step-1 step-2" ]] || fail "hooks: $(cat "$WORK/told")"
}

# The clock of --idle_exit goes on where the batch system has started the job again, and nowhere else.
clock() {
    local run="$WORK/run-clock" out="$WORK/out-clock" begun
    save "$run/step-1"
    touch -d '-2 hours' "$run"/step-1/{.metadata,*}
    export SLURM_JOB_ID=77
    watching "$run" "$out" --hf_config "$DCP/hf" --idle_exit 0
    ended 0 "$out"
    sed -i 's/"time":"[^"]*"/"time":"2026-01-01T00:00:00Z"/' "$out/watch.jsonl"
    SLURM_RESTART_COUNT=1 watching "$run" "$out" --hf_config "$DCP/hf" --idle_exit 1h
    ended 0 "$out"
    for job in 77 78; do
        begun=$SECONDS
        SLURM_JOB_ID=$job watching "$run" "$out" --hf_config "$DCP/hf" --idle_exit 1h
        await "a look at step-1" eval '[[ "$(happened "$out" complete step-1)" == '"$((job - 75))"' ]]'
        sleep 1
        kill -HUP "$watch"
        ended 11 "$out"
    done
}

# It stops between two steps before its job ends, by Slurm's variable, or by what squeue says, and at a time that is given.
job_ends() {
    local run="$WORK/run-job" out="$WORK/out-job"
    mkdir "$run" "$WORK/bin"
    printf '#!/bin/sh\n[ "$*" = "-h -j 77 -o %%e" ] && date -d "+10 seconds" +%%Y-%%m-%%dT%%H:%%M:%%S\n' >"$WORK/bin/squeue"
    chmod +x "$WORK/bin/squeue"
    SLURM_JOB_END_TIME=$(($(date +%s) + 10)) watching "$run" "$out" --stop_before 9s
    ended 11 "$out"
    PATH="$WORK/bin:$PATH" SLURM_JOB_ID=77 watching "$run" "$out" --stop_before 9s
    ended 11 "$out"
    watching "$run" "$out" --stop_at +1s
    ended 11 "$out"
    [[ "$(grep -c '"code":11' "$out/watch.jsonl")" == 3 ]] || fail "the job's end: $(cat "$out/watch.jsonl")"
}

# Stopped inside a merge, by each signal, alone and under a launcher: the merge below ends first, ready to go on.
stopped() {
    local run="$WORK/run-stopped" out signal
    save "$run/step-1"
    for signal in INT TERM HUP USR1; do
        out="$WORK/out-$signal" launch=()
        [[ $signal != TERM && $signal != USR1 ]] || launch=(--launch "mpirun -n 2")
        watching "$run" "$out" --hf_config "$DCP/hf" --bw_limit 5K
        await "a merge of step-1" test -e "$out/.step-1.shardweld-partial/model.safetensors"
        kill "-$signal" "$watch"
        ended 11 "$out"
        ! pgrep -f "merge $run/step-1" >/dev/null || fail "$signal: the merge goes on"
        expect_absent "$out/step-1"
    done
    launch=(--launch "mpirun -n 2")
    watching "$run" "$out" --hf_config "$DCP/hf" --idle_exit 0
    ended 0 "$out"
    same "$out" step-1
    # A launcher that returns 0 and runs nothing has merged nothing.
    save "$run/step-2"
    launch=(--launch true)
    watching "$run" "$out" --hf_config "$DCP/hf" --idle_exit 0
    ended 10 "$out"
    expect_absent "$out/step-2"
}

# A polite watch, as those above, waits for other tests.
polite=(--polite no)
together owes owes
together deleted deleted
together clock clock
together stopped stopped
together job_ends job_ends
together uploads uploads
together one dies 1
together three dies 3
together error deletes error
together skip deletes skip
together keep keeps
together bad goes_on
all_end

# The steps that a run has, wherever they lie, and what trackers say.
run="$WORK/steps"
mkdir -p "$run/a/b"/global_step_{9,10} "$run/a/b/release" "$run/.hidden/step-1" "$run/deep/er/than/that/step-3"
echo 9 >"$run/a/b/latest_checkpointed_iteration.txt"
expect_code 0 "$SHARDWELD" inspect "$run" --steps --json
python3 - "$WORK/out" "$run" <<'PYTHON' || fail "inspect --steps: $(<"$WORK/out")"
import json, os, sys
told = json.load(open(sys.argv[1]))
place = os.path.realpath(sys.argv[2]) + "/a/b"
assert [(row["number"], row["name"], row["directory"], row["has_tracker"]) for row in told["steps"]] == [(n, f"global_step_{n}", place, True) for n in (9, 10)], told
assert [(row["number"], row["file"], row["directory"]) for row in told["trackers"]] == [(9, "latest_checkpointed_iteration.txt", place)] and told["number"] is None, told
PYTHON
expect_code 0 "$SHARDWELD" inspect "$run" --steps && expect_out "a/b/global_step_10"
expect_code 3 "$SHARDWELD" inspect "$run/none" --steps --json

run="$WORK/run" out="$WORK/outputs"
mkdir -p "$run/step-2"
expect_code 2 "$SHARDWELD" watch "$run" "$out" --average && expect_text "--average is not an option of watch"
expect_code 2 mpirun -n 2 "$SHARDWELD" watch "$run" "$out" --idle_exit 0 && expect_text "--launch 'mpirun -n 4'"
expect_code 2 "$SHARDWELD" watch "$run" "$out" --dtype bf17 && expect_text "bf17"
expect_code 2 "$SHARDWELD" watch "$run" "$out" --launch 'no-such-launcher -n 2' && expect_text "no-such-launcher"
expect_code 2 "$SHARDWELD" watch "$run" "$out" --launch "srun 'x" && expect_text "a quote has no end"
expect_code 2 "$SHARDWELD" watch "$run" "$out" --report r.json && expect_text "each output has its report"
expect_code 2 "$SHARDWELD" watch "$run" && expect_text "--target_dir"
expect_code 2 "$SHARDWELD" watch "$run/step-2" "$out" && expect_text "is a step itself"
expect_code 2 "$SHARDWELD" watch "$SHARDWELD" "$out" && expect_text "$(basename "$SHARDWELD") is a file"
expect_code 2 "$SHARDWELD" watch "$run" "$run" && expect_text "cannot be watched and written to"
expect_code 2 "$SHARDWELD" watch "$run" "$out" --then "no-such-program x" && expect_text "no-such-program"
expect_code 12 "$SHARDWELD" watch "$run" "$SHARDWELD" && expect_text "is not a directory"
expect_code 3 "$SHARDWELD" watch "$WORK/none/none" "$out" && expect_text "there is no directory"
finish

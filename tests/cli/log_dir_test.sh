#!/usr/bin/env bash
# --log_dir: one log a rank, with times, phases and files, kept over runs; what cannot be one is refused.
source "$(dirname "$0")/lib.sh"
CASE="$TESTS/data/megatron/llama-tp4-legacy-bf16"
LOGS="$WORK/logs/of/runs"

logged() { # RANK TEXT: some line of the rank's log, behind its time, is TEXT (an extended regular expression)
    grep -qE "^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z $2\$" "$LOGS/rank-000$1.log" ||
        fail "rank $1 did not log '$2': $(head -c 1500 "$LOGS/rank-000$1.log")"
}

merge_case "$CASE" "$WORK/merged" 3 --strategy direct --log_dir "$LOGS"
same_as_expected "$CASE" "$WORK/merged"
[[ "$(ls "$LOGS" | tr '\n' ' ')" == "rank-0000.log rank-0001.log rank-0002.log " ]] || fail "logs: $(ls "$LOGS")"
logged 0 "phase survey: .*"  # for all ranks of this host
for rank in 0 1 2; do
    logged "$rank" "shardweld [0-9.]+ \(.*\), rank $rank of 3 on [^ ]+, process [0-9]+, in [^ ]+: .*merge .*--strategy direct.*"
    logged "$rank" "phase plan: [0-9.]+ s, [0-9.]+ s of processor time"
    logged "$rank" "phase publish: .*"
    logged "$rank" "opens $CASE/source/iter_.*/mp_rank_0[0-3]/model_optim_rng\.pt"
    logged "$rank" "opens $WORK/\.merged\..*\.safetensors"
    logged "$rank" "wrote: $WORK/merged in .*"
    logged "$rank" "exits with code 0"
done

# A failure is in every rank's log, behind the earlier run.
expect_code 12 mpirun -n 3 "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$WORK/merged" --log-dir "$LOGS"
for rank in 0 1 2; do
    logged "$rank" "exits with code 0"
    logged "$rank" "error: the target directory $WORK/merged exists and is not empty.*"
    logged "$rank" "exits with code 12"
done

# A target appears whole, and logs begin before it.
for logs in "$WORK/fresh" "$WORK/fresh/logs" "$WORK/other/../fresh/logs"; do
    expect_code 2 mpirun -n 3 "$SHARDWELD" merge "$CASE/source" "$WORK/fresh" --hf_config "$CASE/hf" --log_dir "$logs"
    expect_text "--log_dir $logs lies in the target directory" && expect_text "name a directory outside of it"
done
expect_code 2 "$SHARDWELD" merge "$CASE/source" "$WORK/first" --hf_config "$CASE/hf" --also "$WORK/fresh:fp32" --log_dir "$WORK/fresh"
[[ ! -e "$WORK/fresh" && ! -e "$WORK/first" ]] || fail "a refused log was begun"

# Nothing is written through a link, to no directory and into no file's place.
rm -r "$LOGS"
mkdir -p "$LOGS"
echo mine >"$WORK/mine"
ln -s "$WORK/mine" "$LOGS/rank-0001.log"
run=("$SHARDWELD" inspect "$CASE/source" --log_dir)
expect_code 12 mpirun -n 2 "${run[@]}" "$LOGS" && expect_text "rank-0001.log is not a regular file"
[[ "$(cat "$WORK/mine")" == mine ]] || fail "a link was followed"
mkfifo "$WORK/fifo" && rm "$LOGS/rank-0001.log" && mv "$WORK/fifo" "$LOGS/rank-0001.log"
expect_code 12 mpirun -n 2 "${run[@]}" "$LOGS" && expect_text "rank-0001.log is not a regular file"
expect_code 12 "${run[@]}" "$WORK/mine" && expect_text "--log_dir $WORK/mine is not a directory"
expect_code 3 "${run[@]}" "$WORK/mine/logs"
expect_text "cannot create directory $WORK/mine/logs"

# A log that cannot be written ends no merge.
rm -r "$LOGS"
mkdir "$LOGS"
# ThreadSanitizer writes a file of its own before the program can ignore the signal.
early="$([[ -v TSAN_OPTIONS ]] && echo "trap '' XFSZ;")"
expect_code 0 bash -c "$early"' ulimit -f 0; exec "$@" >/dev/null' - "${run[@]}" "$LOGS"

# A merge continues if its output is not read.
expect_unread 0 "$SHARDWELD" merge -v --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$WORK/unheard"
same_as_expected "$CASE" "$WORK/unheard"

# Nor does a test that folds an adapter leave its factors.
mkdir "$WORK/scratch"
lora="$TESTS/data/torch/fsdp2_lora_w2_fp32_qwen2"
expect_code 0 "$SHARDWELD" merge --local_dir "$lora/source" --lora fold --target_dir "$WORK/folded"
TMPDIR="$WORK/scratch" expect_unread 7 "$SHARDWELD" test -v --local_dir "$lora/source" --lora fold --test_hf_dir "$WORK/folded"
[[ -z "$(ls -A "$WORK/scratch")" ]] || fail "left $(ls -A "$WORK/scratch")"

finish

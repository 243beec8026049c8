#!/usr/bin/env bash
# --stream: files are sent while others are written. Merges are slowed down with --bw_limit, so that there is time to send; the commands are small
# programs that copy real files, the Hub is the stand-in on the loopback with its real client (skipped loudly where there is none).
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$TESTS/cli/upload_lib.sh"
unset OMPI_MCA_odls_base_sigkill_timeout  # ranks that are stopped need their second
fixture="$TESTS/data/megatron/llama-tp4-legacy-bf16"
merging=("$SHARDWELD" merge "$fixture/source" --hf_config "$fixture/hf" --no_fsync --stream)
small=(--max_shard_size 40KB)
slowly=(--bw_limit 150KB)  # six seconds for the fixture
model="$WORK/model"
store="$WORK/store"
copied="$WORK/copied"

# copy FROM TO: a client, which notes the name of what it was given, and whether the model was there. Its behaviour is what $WORK/does says, if anything.
cat >"$WORK/copy" <<END
#!/bin/bash
WORK="$WORK"
[[ -e "$model/config.json" ]] && when=late || when=early
echo "\$when \$(basename "\$1")" >>"$copied"
[[ ! -e "\$WORK/does" ]] || source "\$WORK/does"
mkdir -p "\$(dirname "\$2")" && cp "\$1" "\$2"
END
chmod +x "$WORK/copy"
put=(--put "$WORK/copy {} $store/{}")

afresh() {
    rm -rf "$store" "$copied" "$WORK/does" "$model" "$WORK/client"
}
n_early() {
    grep -c '^early' "$copied"
}
# stored WHAT: the store has exactly the model's files, but for those that stay.
stored() {
    diff -r -x shardweld_report.json -x shardweld_put.jsonl "$model" "$store" >"$WORK/diff" 2>&1 || fail "$1: not what was put: $(head -2 "$WORK/diff")"
    same_as_expected "$fixture" "$model"
}
each_once() {
    local twice
    twice="$(cut -d' ' -f2 "$copied" | sort | uniq -d)"
    [[ -z "$twice" ]] || fail "$1: put twice: $twice"
}
# is_running PROCESS: what has ended and nobody has asked for does not run.
is_running() {
    grep -qs '^State:.[^ZX]' "/proc/$1/status"
}
# outlives PROCESS: it runs seconds after the merge. A signal to a group ends its members one after the other, on a busy machine not at once.
outlives() {
    local turn
    for turn in {1..100}; do is_running "$1" || return 1; sleep 0.05; done
}
# until_there FILE
until_there() {
    local turn
    for turn in {1..300}; do [[ ! -s "$1" ]] || return 0; sleep 0.05; done
    fail "$1 never came"
}

expect_code 2 "${merging[@]}" --target_dir "$WORK/none" && expect_text '--stream sends files, and there is no place for them'

# Files go up before the model is there, each once; weights alone, and what names them behind all.
for ranks in 0 3; do
    afresh
    launcher=()
    ((ranks == 0)) || launcher=(mpirun -n "$ranks")
    expect_code 0 "${launcher[@]}" "${merging[@]}" "${small[@]}" --target_dir "$model" "${slowly[@]}" "${put[@]}"
    stored "$ranks ranks"
    each_once "$ranks ranks"
    (("$(n_early)" > 0)) || fail "$ranks ranks: sent while merging: $(cat "$copied")"
    ! grep '^early' "$copied" | grep -qv 'safetensors$' || fail "$ranks ranks: other files than weights: $(cat "$copied")"
    expect_text "sent while merging: $(n_early) of $(ls "$model"/*.safetensors | wc -l) files"
    [[ "$(tail -n 2 "$copied" | sort | tr '\n' ' ')" == "late config.json late model.safetensors.index.json " ]] || fail "last: $(tail -n 2 "$copied")"
done
# What was sent ahead is known to the command, too.
n="$(wc -l <"$copied")"
expect_code 0 "$SHARDWELD" upload "$model" "${put[@]}"
[[ "$(wc -l <"$copied")" == "$n" ]] || fail "put again: $(tail -n 3 "$copied")"

# Clients that fail, or are killed, while the merge goes on: said, and sent behind it. One that always fails: the upload's error, and the model stays.
afresh
echo '[[ $when == late || "$1" != *00002-of-* ]] || { echo "no room" >&2; exit 7; }' >"$WORK/does"
expect_code 0 "${merging[@]}" "${small[@]}" --target_dir "$model" "${slowly[@]}" "${put[@]}"
expect_text 'note: --stream: model-00002-of-' && expect_text 'ended with exit code 7; it says: no room; what was not sent follows behind the merge'
stored "a client that fails"
grep -q '^late model-00002-of-' "$copied" || fail "not put behind the merge: $(cat "$copied")"
afresh
echo '[[ $when == late ]] || kill -KILL $$' >"$WORK/does"
expect_code 0 mpirun -n 2 "${merging[@]}" "${small[@]}" --target_dir "$model" "${slowly[@]}" "${put[@]}"
expect_text 'was ended by signal 9'
stored "clients that are killed"
(($(n_early) >= 1 && $(n_early) <= 3)) || fail "tried $(n_early) times: $(cat "$copied")"
afresh
echo 'exit 3' >"$WORK/does"
expect_code 25 "${merging[@]}" "${small[@]}" --target_dir "$model" "${slowly[@]}" "${put[@]}"
expect_text "then: shardweld upload $model --put"
same_as_expected "$fixture" "$model"

# A client that is still at work when all is written is waited for.
afresh
echo 'until [[ $when == late || -e "$(dirname "$1")/config.json" ]]; do sleep 0.1; done; [[ $when == late ]] || sleep 1' >"$WORK/does"
expect_code 0 mpirun -n 2 "${merging[@]}" "${small[@]}" --target_dir "$model" "${slowly[@]}" "${put[@]}"
expect_text 'waiting for model-0' && expect_text 'sent while merging: 1 of '
stored "a slow client"
each_once "a slow client"

# A signal meanwhile ends the client and all that it has started, and the upload; the model is whole, and appears.
afresh
echo 'until [[ $when == late || -e "$(dirname "$1")/config.json" ]]; do sleep 0.1; done; [[ $when == late ]] || { sleep 61 & echo $! >"$WORK/client"; wait; }' >"$WORK/does"
"${merging[@]}" "${small[@]}" --target_dir "$model" "${slowly[@]}" "${put[@]}" >"$WORK/out" 2>"$WORK/err" &
program=$!
until_there "$WORK/client"
sleep 1
kill -TERM $program
code=0
wait $program || code=$?
[[ "$code" == 25 ]] || fail "a signal while it waits: exit code $code: $(cat "$WORK/err")"
expect_text 'interrupted by SIGTERM, before model-0' && expect_text "then: shardweld upload $model --put"
! outlives "$(<"$WORK/client")" || fail "what the client has started outlived the merge"
same_as_expected "$fixture" "$model"
rm "$WORK/does"
expect_code 0 "$SHARDWELD" upload "$model" "${put[@]}"
stored "a signal while it waits"

# A client that fills its output without end is ended, and what clients leave beside the files is no part of the model.
afresh
echo '[[ $when == late || "$1" != *00002-of-* ]] || exec yes; touch "$1.sums"' >"$WORK/does"
"${merging[@]}" "${small[@]}" --target_dir "$model" "${slowly[@]}" "${put[@]}" >"$WORK/out" 2>"$WORK/err" &
program=$!
for turn in {1..300}; do ! grep -q 'waiting for' "$WORK/err" || break; sleep 0.05; done
expect_text 'waiting for model-00002-of-'
kill -TERM $program
code=0
wait $program || code=$?
[[ "$code" == 25 ]] || fail "a client without end: exit code $code: $(cat "$WORK/err")"
same_as_expected "$fixture" "$model"
[[ -z "$(find "$model" -name '*.sums')" ]] || fail "what a client left: $(ls "$model")"

# What was sent from one directory to a place beside it was not sent from another. What is replaced may be at the place still.
afresh
mkdir -p "$WORK/here" "$WORK/there"
(cd "$WORK/here" && expect_code 0 "${merging[@]}" "${small[@]}" --target_dir "$model" "${slowly[@]}" --put "$WORK/copy {} store/{}")
(cd "$WORK/there" && expect_code 0 "$SHARDWELD" upload "$model" --put "$WORK/copy {} store/{}")
diff -r "$WORK/here/store" "$WORK/there/store" >"$WORK/diff" || fail "another directory: $(head -2 "$WORK/diff")"
expect_code 0 "${merging[@]}" "${small[@]}" --target_dir "$model" --overwrite "${put[@]}" && expect_text 'note: --stream: the place of --put may hold the model that is replaced here'
stored replaced

# Signals end the client with the merge; the next one goes on, and what was sent is not sent again.
for victim in signal program; do
    afresh
    echo '[[ "$1" != *00003-of-* || -e "$WORK/client" ]] || { echo $$ >"$WORK/client"; sleep 60 & wait $!; }' >"$WORK/does"
    "${merging[@]}" "${small[@]}" --target_dir "$model" --bw_limit 60KB "${put[@]}" >"$WORK/out" 2>"$WORK/err" &
    program=$!
    until_there "$WORK/client"
    kill -"$([[ $victim == signal ]] && echo TERM || echo KILL)" $program
    code=0
    wait $program || code=$?
    [[ "$code" == "$([[ $victim == signal ]] && echo 11 || echo 137)" ]] || fail "$victim: exit code $code: $(cat "$WORK/err")"
    [[ $victim == program ]] || ! outlives "$(<"$WORK/client")" || fail "the client outlived the merge"
    kill -KILL "$(<"$WORK/client")" 2>/dev/null
    expect_absent "$model"
    before="$(cut -d' ' -f2 "$copied" | grep -v 00003-of- | sort)"
    [[ "$(wc -w <<<"$before")" -ge 2 ]] || fail "$victim: sent before: $(cat "$copied")"
    rm "$copied"
    expect_code 0 mpirun -n 3 "${merging[@]}" "${small[@]}" --target_dir "$model" "${put[@]}" && expect_text 'continuing an earlier merge'
    stored "$victim"
    each_once "$victim"
    [[ -z "$(comm -12 <(echo "$before") <(cut -d' ' -f2 "$copied" | sort))" ]] || fail "$victim: sent again: $(cat "$copied")"
done

# Files of another format.
afresh
expect_code 0 mpirun -n 2 "${merging[@]}" "${small[@]}" --output_format hdf5 --target_dir "$model" "${slowly[@]}" "${put[@]}"
(("$(n_early)" > 0)) || fail "HDF5: sent while merging: $(cat "$copied")"
diff -r -x shardweld_report.json -x shardweld_put.jsonl "$model" "$store" >"$WORK/diff" 2>&1 || fail "HDF5: not what was put: $(head -2 "$WORK/diff")"
each_once HDF5

# A watch.
DCP="$TESTS/data/torch/dcp_w2_bf16_qwen2"
afresh
mkdir "$WORK/run"
cp -r "$DCP/source" "$WORK/run/step-3"
expect_code 0 "$SHARDWELD" watch "$WORK/run" "$WORK/watched" --hf_config "$DCP/hf" --interval 0.1 --idle_exit 0 --no_fsync --max_shard_size 20KB --stream \
    --bw_limit 40KB --put "$WORK/copy {} $store/step-{n}/{}"
expect_text 'sent while merging: '
! grep -q 'sent while merging: 0 ' "$WORK/err" || fail "a watch sent nothing ahead: $(cat "$WORK/err")"
diff -r -x shardweld_report.json -x shardweld_put.jsonl "$WORK/watched/step-3" "$store/step-3" >"$WORK/diff" || fail "a watch: $(head -2 "$WORK/diff")"
each_once "a watch"

# The Hub: blobs arrive while the merge goes on, one commit names them at its end.
hf="$(find_hf)" || hf=""
if [[ -z "$hf" ]]; then
    echo "SKIPPED in part: no client of the Hub (pip install huggingface_hub, or SHARDWELD_HF_CLI)"
    [[ ",${SHARDWELD_REQUIRE:-}," != *,upload,* ]] || fail "the upload client is required"
    finish
fi
start_hub
export HF_TOKEN="$token" HF_ENDPOINT="http://127.0.0.1:$(cat "$hub/port")" HF_HUB_DISABLE_XET=1
rm -rf "$model"
begin streaming mpirun -n 3 "${merging[@]}" "${small[@]}" --target_dir "$model" --bw_limit 100KB --hf_upload_path me/streamed --revision step-1 --hf_cli "$hf"
wait_for "$hub/arrived"
expect_absent "$model"
ended streaming 0 'sent while merging: '
diff -r -x shardweld_report.json "$hub/me/streamed/files-step-1" "$model" >"$WORK/diff" || fail "the Hub: $(head -1 "$WORK/diff")"
[[ "$(wc -l <"$hub/me/streamed/commits")" == 1 ]] || fail "commits: $(cat "$hub/me/streamed/commits")"
[[ "$(grep -c '^me ' "$hub/arrived")" == "$(ls "$model"/*.safetensors | wc -l)" ]] || fail "blobs: $(cat "$hub/arrived")"
# A Hub that refuses: said while merging, and the upload's error behind it.
rm -rf "$model"
expect_code 22 "${merging[@]}" "${small[@]}" --target_dir "$model" "${slowly[@]}" --hf_upload_path status403/model --hf_cli "$hf"
expect_text 'was not sent to status403/model' && expect_text "then, from $model: shardweld upload"
hides_secrets "$WORK/err"
# Clients that do more than the official one send all behind the merge.
python="$(head -n 1 "$hf" | cut -c 3-)"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$hf" >"$WORK/wrapped"
printf '#!%s\nimport os, sys\nos.environ["HF_ENDPOINT"] = "%s"\nfrom huggingface_hub.cli.hf import main\nsys.exit(main())\n' "$python" "$HF_ENDPOINT" >"$WORK/elsewhere"
chmod +x "$WORK/wrapped" "$WORK/elsewhere"
for client in wrapped elsewhere; do
    rm -rf "$model"
    expect_code 0 "${merging[@]}" "${small[@]}" --target_dir "$model" --hf_upload_path "me/$client" --hf_cli "$WORK/$client"
    expect_text 'is not the program that pip makes of huggingface_hub'
    has_received "me/$client" "$model"
done
[[ ! -e "$hub/faults" ]] || fail "the Hub received: $(cat "$hub/faults")"
finish

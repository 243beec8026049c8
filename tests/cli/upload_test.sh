#!/usr/bin/env bash
# Uploads with the official client to a stand-in of the Hub on the loopback, and everything that is checked before. The client is
# $SHARDWELD_HF_CLI, else hf beside $SHARDWELD_PYTHON, else one installed for this test (needs python3-venv and a package index).
# Without any, the second half is skipped loudly; a failure under SHARDWELD_REQUIRE=upload.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset OMPI_MCA_odls_base_sigkill_timeout  # ranks that are stopped need their second
source "$TESTS/cli/upload_lib.sh"
fixture="$TESTS/data/megatron/llama-tp4-legacy-bf16"
merging=("$SHARDWELD" merge --local_dir "$fixture/source" --hf_config "$fixture/hf" -q --max_shard_size 100KB)
model="$WORK/model"
merge_case "$fixture" "$model" 0 --max_shard_size 100KB
upload=("$SHARDWELD" upload "$model" --hf_upload_path)

# Names: refused at once, by every rank, before anything is read or written.
for name in model me/model/x me/mo--del '-x/model' 'me/ü' https://huggingface.co/me/model; do
    expect_code 2 "${upload[@]}" "$name" && expect_text 'give ORG/NAME'
done
expect_code 2 mpirun -n 3 "${merging[@]}" --target_dir "$WORK/none" --hf_upload_path model
expect_absent "$WORK/none"

# Directories that hold no finished model.
mkdir "$WORK/empty"
cp -r "$model" "$WORK/lacking"
rm "$WORK"/lacking/model-00002-*
cp -r "$model" "$WORK/bare"
rm "$WORK/bare/config.json"
for name in empty lacking bare none; do
    expect_code 3 "$SHARDWELD" upload "$WORK/$name" --hf_upload_path me/model && expect_text "$WORK/$name"
done
expect_code 3 "$SHARDWELD" upload "$fixture/source" --hf_upload_path me/model && expect_text 'merge it first'
expect_code 3 mpirun -n 2 "$SHARDWELD" upload "$WORK/lacking" --hf_upload_path me/model && expect_text 'names model-00002-of-'

# Files that are not meant to be published.
echo secret >"$WORK/secret"
for name in notes.txt .env; do
    cp -r "$model" "$WORK/more"
    if [[ "$name" == .env ]]; then echo secret >"$WORK/more/$name"; else ln -s "$WORK/secret" "$WORK/more/$name"; fi
    expect_code 4 "$SHARDWELD" upload "$WORK/more" --hf_upload_path me/model && expect_text "$WORK/more/$name "
    rm -r "$WORK/more"
done

# Clients that are missing, no programs or not the Hub's.
mkdir "$WORK/only_python"
ln -s "$(command -v python3)" "$WORK/only_python/python3"
expect_code 20 env PATH="$WORK/only_python" "${upload[@]}" me/model && expect_text 'neither hf nor huggingface-cli is on PATH'
for client in "$WORK/nowhere/hf" nowhere-hf "$model/config.json" "$(command -v true)" "$(command -v false)"; do
    expect_code 20 "${upload[@]}" me/model --hf_cli "$client" && expect_text 'pip install huggingface_hub'
done
expect_code 20 mpirun -n 3 "${merging[@]}" --target_dir "$WORK/none" --hf_upload_path me/model --hf_cli "$WORK/nowhere/hf"
# A merge without Python says so before it reads.
expect_code 3 env PATH="$WORK/empty" "${merging[@]}" --target_dir "$WORK/none" --hf_upload_path me/model && expect_text 'Python'
expect_absent "$WORK/none"

# Tokens: none, and ones that a client tells.
client "$WORK/silent" 'exit 0'
expect_code 21 "${upload[@]}" me/model --hf_cli "$WORK/silent" && expect_text 'hf auth login'
expect_code 21 "${merging[@]}" --target_dir "$WORK/none" --hf_upload_path me/model --hf_cli "$WORK/silent"
expect_absent "$WORK/none"
client "$WORK/talking" 'for word; do echo "word: $word"; done; echo "$HF_TOKEN, token=$HF_TOKEN"; echo "hf_ANOTHERTOKENabcdefghij"
    echo "authorization: Bearer $HF_TOKEN"; cat "$HF_TOKEN_PATH"; echo; printf %s "x:$HF_TOKEN" | base64; printf %s "$HF_TOKEN" | od -An -v -tx1 | tr -d " \\n"; echo; echo "Error: with $HF_TOKEN" >&2; exit 1'
printf 'of-the-file' >"$WORK/token"
export HF_TOKEN="$token" HF_TOKEN_PATH="$WORK/token"
expect_code 25 "${upload[@]}" me/model --private --revision step-1 --hf_cli "$WORK/talking" -v && expect_text 'word: --private' && expect_text 'Error: with ***'
hides_secrets "$WORK/out" "$WORK/err" of-the-file ANOTHERTOKEN "$(printf %s "x:$token" | base64 | cut -c5-20)" "$(printf %s "${token:0:20}" | od -An -v -tx1 | tr -d ' \n')"
[[ "$(grep -o 'word: .*' "$WORK/err" | tr '\n' ' ')" == "word: upload word: me/model word: $model word: . word: --repo-type word: model word: --private word: --revision word: step-1 word: --exclude word: shardweld_report.json " ]] ||
    fail "the client's arguments: $(grep 'word: ' "$WORK/err")"
expect_text "shardweld upload $model --hf_upload_path me/model --private --revision step-1 --hf_cli $WORK/talking"
unset HF_TOKEN_PATH
# One process does it, and knows of no ranks.
client "$WORK/counting" 'echo "$*" >>"$WORK/counted"; env >"$WORK/variables"; echo "model.safetensors:  50%|##"'
export WORK
for command in "${upload[*]}" "${merging[*]} --target_dir $WORK/counted_model"; do
    rm -f "$WORK/counted"
    read -ra words <<<"${command% --hf_upload_path}"
    expect_code 0 mpirun -n 3 "${words[@]}" --hf_upload_path me/model --hf_cli "$WORK/counting"
    [[ "$(wc -l <"$WORK/counted")" == 1 ]] || fail "uploaded $(wc -l <"$WORK/counted") times: $command"
    ! grep -E '^(OMPI_COMM_|PMIX_|PMI_)' "$WORK/variables" || fail "a client that takes itself for a rank"
done

hf="$(find_hf)" || {
    echo "SKIPPED: no client of the Hub (pip install huggingface_hub, or SHARDWELD_HF_CLI)"
    [[ ",${SHARDWELD_REQUIRE:-}," != *,upload,* ]] || fail "the upload client is required"
    finish
    exit 77
}
start_hub
mkdir "$WORK/bin"
ln -s "$(realpath "$hf")" "$WORK/bin/hf"
export PATH="$WORK/bin:$PATH" HF_ENDPOINT="http://127.0.0.1:$(cat "$hub/port")" HF_HUB_DISABLE_XET=1

# What fails in its own time goes on behind the rest: the client tries a broken connection several times.
begin dropped "${upload[@]}" drops/model
begin killed "${upload[@]}" slow-killed/model
begin stopped "${upload[@]}" slow-stopped/model
begin behind "${merging[@]}" --target_dir "$WORK/behind" --hf_upload_path slow-behind/model

# A directory of several files and one of parts, alone and with ranks.
expect_code 0 "${upload[@]}" me/model --private -v && expect_text 'client: ' && expect_text "uploaded $model to me/model"
has_received me/model "$model"
is_private me/model || fail "not private: $(cat "$hub/me/model/created.json")"
expect_code 0 "${upload[@]}" me/model || echo "    (a repository that exists)"
expect_code 0 "${upload[@]}" me/model --revision step-1
diff -r -x shardweld_report.json "$hub/me/model/files-step-1" "$model" >"$WORK/diff" || fail "another branch: $(head -1 "$WORK/diff")"
# A mirror that judges no model cards gets all but the card.
touch "$hub/no_cards"
expect_code 0 "${upload[@]}" me/mirrored && expect_text "the Hub at HF_ENDPOINT takes no model card: README.md stays here"
rm "$hub/no_cards"
diff -r -x shardweld_report.json -x README.md "$hub/me/mirrored/files" "$model" >"$WORK/diff" || fail "a mirror: $(head -1 "$WORK/diff")"
[[ ! -e "$hub/me/mirrored/files/README.md" ]] || fail "a card that was refused"
expect_code 0 mpirun -n 3 "${merging[@]}" --target_dir "$WORK/merged" --hf_upload_path parts/model
has_received parts/model "$WORK/merged"
has_received parts/model "$model"
! is_private parts/model || fail "private without --private"

# Refusals: each its own code on all ranks; the model stays, and the report tells.
expect_code 22 mpirun -n 3 "${merging[@]}" --target_dir "$WORK/stays" --hf_upload_path status403/model --report "$WORK/report.json"
expect_text '(403)' && expect_text "then, from $WORK/stays: shardweld upload $WORK/stays --hf_upload_path status403/model"
diff -r -x shardweld_report.json "$WORK/stays" "$model" >"$WORK/diff" || fail "the model did not stay: $(head -1 "$WORK/diff")"
hides_secrets "$WORK/report.json"
grep -q '"name": *"no_rights"' "$WORK/report.json" || fail "the report: $(grep -A3 '"exit"' "$WORK/report.json")"
expect_code 22 "${upload[@]}" status401/model && expect_text '(401)'
HF_TOKEN=hf_wrongwrongwrongwrong expect_code 22 "${upload[@]}" me/other && expect_text 'may write to me'
expect_code 23 "${upload[@]}" status404/model && expect_text '(404)'
expect_code 24 "${upload[@]}" status503/model && expect_text '(503)'
HF_ENDPOINT=http://127.0.0.1:1 expect_code 24 "${upload[@]}" me/model && expect_text 'cannot be reached'
HF_HUB_OFFLINE=1 expect_code 24 "${upload[@]}" me/model && expect_text 'offline'
hides_secrets "$WORK/out" "$WORK/err"

# Interruptions: of the client, of this program, of the connection.
wait_for "$hub/slow-killed.begun"
kill -KILL "$(child_of "${pids[killed]}")"
ended killed 25 'ended by a signal (signal 9' "shardweld upload $model --hf_upload_path slow-killed/model"
wait_for "$hub/slow-stopped.begun"
kill -TERM "${pids[stopped]}"
ended stopped 25 'stopped by a signal'
wait_for "$hub/slow-behind.begun"
kill -TERM "${pids[behind]}"
ended behind 25 'stopped by a signal' "shardweld upload $WORK/behind --hf_upload_path slow-behind/model"
same_tensors "$WORK/behind" "$model"
ended dropped 25 'the connection broke' 'then, from'
[[ ! -e "$hub/faults" ]] || fail "the Hub received: $(cat "$hub/faults")"
finish

#!/usr/bin/env bash
# --put: models sent elsewhere by a command that is run for each file. The commands are small programs that copy real files.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset OMPI_MCA_odls_base_sigkill_timeout  # ranks that are stopped need their second
fixture="$TESTS/data/megatron/llama-tp4-legacy-bf16"
merging=("$SHARDWELD" merge "$fixture/source" --hf_config "$fixture/hf" -q --no_fsync --max_shard_size 100KB)
model="$WORK/model"
store="$WORK/store"
secret=SECRETsecretSECRETsecret

# copy FROM TO: a client, which notes what it was given. Its behaviour is what $WORK/does says, if anything.
cat >"$WORK/copy" <<END
#!/bin/bash
echo "\$(basename "\$1")" >>"$WORK/copied"
[[ ! -e "$WORK/does" ]] || source "$WORK/does"
mkdir -p "\$(dirname "\$2")" && cp "\$1" "\$2"
END
chmod +x "$WORK/copy"
put="$WORK/copy {} $store/{}"

# stored DIR [STORE]: the store has exactly the directory's files, but for those that stay.
stored() {
    diff -r -x shardweld_report.json -x shardweld_put.jsonl "$1" "${2:-$store}" >"$WORK/diff" 2>&1 || fail "not what was put: $(head -2 "$WORK/diff")"
    [[ -z "$(find "${2:-$store}" -name 'shardweld_*')" ]] || fail "what stays was put: $(ls "${2:-$store}")"
}
afresh() {
    rm -rf "$store" "$WORK/copied" "$WORK/does" "$WORK/waits"
}
n_copied() {
    wc -l <"$WORK/copied"
}

# Commands that cannot work are refused before anything is read or written.
for bad in 'cp' 'cp {' '{} x' '"cp {}' ''; do
    expect_code 2 "${merging[@]}" --target_dir "$WORK/none" --put "$bad"
done
expect_code 2 "${merging[@]}" --target_dir "$WORK/none" --put "$put" --hf_upload_path me/model && expect_text '--put excludes the options of the Hub'
expect_code 2 "$SHARDWELD" watch "$WORK/run" "$WORK/none" --put "$put" && expect_text "write {n} where the step's number belongs"
for nobody in "$WORK/nowhere" no-such-program "$fixture/hf/config.json"; do
    expect_code 20 mpirun -n 3 "${merging[@]}" --target_dir "$WORK/none" --put "$nobody {}" && expect_text "there is no program $nobody"
done
expect_absent "$WORK/none"

# A merge, alone and with ranks; weights first, what names them last.
for ranks in 1 3; do
    afresh
    expect_code 0 mpirun -n "$ranks" "${merging[@]}" --target_dir "$model" --overwrite --put "$put"
    stored "$model"
    n_weights="$(ls "$model"/*.safetensors | wc -l)"
    [[ "$n_weights" -gt 2 && "$(head -n "$n_weights" "$WORK/copied" | grep -c safetensors$)" == "$n_weights" ]] || fail "order: $(cat "$WORK/copied")"
    [[ "$(tail -n 2 "$WORK/copied" | sort | tr '\n' ' ')" == "config.json model.safetensors.index.json " ]] || fail "last: $(tail -n 2 "$WORK/copied")"
done
total="$(n_copied)"

# What was put is not put again; what has changed is, and so is everything by another command.
expect_code 0 "$SHARDWELD" upload "$model" --put "$put"
[[ "$(n_copied)" == "$total" ]] || fail "put again: $(tail -n "+$((total + 1))" "$WORK/copied")"
touch "$model/generation_config.json"
expect_code 0 "$SHARDWELD" upload "$model" --put "$put"
[[ "$(tail -n "+$((total + 1))" "$WORK/copied")" == generation_config.json ]] || fail "changed: $(tail -n "+$((total + 1))" "$WORK/copied")"
expect_code 0 "$SHARDWELD" upload "$model" --put "$WORK/copy {} '$WORK/with blank'/{}"
stored "$model" "$WORK/with blank"
# Directories in a model keep their place, and a file's name is one word whatever it has in it.
cp -r "$model" "$WORK/deep"
mkdir "$WORK/deep/lora_adapter"
echo '{}' >"$WORK/deep/lora_adapter/a \$(id) 'b'.json"
expect_code 5 "$SHARDWELD" upload "$WORK/deep" --put "$WORK/copy {} $WORK/deeper/{}" && expect_text 'it holds more than letters'
mv "$WORK"/deep/lora_adapter/{a*,adapter_config.json}
expect_code 0 "$SHARDWELD" upload "$WORK/deep" --put "$WORK/copy {} $WORK/deeper/{}"
stored "$WORK/deep" "$WORK/deeper"
# Files that are not meant to be published are not.
ln -s "$WORK/copied" "$WORK/deep/notes.txt"
expect_code 4 "$SHARDWELD" upload "$WORK/deep" --put "$put" && expect_text "$WORK/deep/notes.txt leads out"

# A client that fails in the middle: its words without secrets, the model stays, and the command that is told goes on.
afresh
rm -rf "$model"
echo '[[ "$1" != *00003-of-* ]] || { echo "no room for $MY_SECRET here" >&2; exit 7; }' >"$WORK/does"
MY_SECRET="$secret" expect_code 25 mpirun -n 3 "${merging[@]}" --target_dir "$model" --put "$put" --report "$WORK/report.json"
expect_text 'model-00003-of-'
expect_text 'ended with exit code 7; it says: no room for *** here'
expect_text "then: shardweld upload $model --put '$put'"
! grep -rqF "$secret" "$WORK/err" "$WORK/out" "$model" || fail "a secret is shown"
grep -q '"name": *"interrupted"' "$WORK/report.json" || fail "the report: $(grep -A3 '"exit"' "$WORK/report.json")"
expect_absent "$store/config.json"
expect_absent "$store/model.safetensors.index.json"
[[ "$(ls "$store" | wc -l)" == 2 ]] || fail "put before the failure: $(ls "$store")"
rm "$WORK/does" "$WORK/copied"
expect_code 0 "$SHARDWELD" upload "$model" --put "$put"
stored "$model"
[[ "$(n_copied)" == $((total - 2)) ]] || fail "put twice: $(cat "$WORK/copied")"

# Kills: of the client, of this program, and a signal that it passes on.
waiting='[[ "$1" != *00002-of-* || -e "$WORK/waits" ]] || { touch "$WORK/waits"; echo $$ >"$WORK/client"; sleep 60 & wait $!; }'
for victim in client program signal; do
    afresh
    rm -f "$model/shardweld_put.jsonl"
    echo "WORK='$WORK'; $waiting" >"$WORK/does"
    "$SHARDWELD" upload "$model" --put "$put" >"$WORK/out" 2>"$WORK/err" &
    program=$!
    for turn in {1..200}; do [[ ! -s "$WORK/client" || ! -e "$WORK/waits" ]] || break; sleep 0.05; done
    case $victim in
        client) kill -KILL "$(<"$WORK/client")" ;;
        program) kill -KILL $program ;;
        signal) kill -TERM $program ;;
    esac
    code=0
    wait $program || code=$?
    kill -KILL "$(<"$WORK/client")" 2>/dev/null
    [[ "$code" == "$([[ $victim == program ]] && echo 137 || echo 25)" ]] || fail "$victim: exit code $code: $(cat "$WORK/err")"
    [[ $victim != client ]] || expect_text 'was ended by signal 9'
    [[ $victim != signal ]] || expect_text 'stopped by a signal'
    rm "$WORK/copied" "$WORK/client"
    expect_code 0 "$SHARDWELD" upload "$model" --put "$put"
    stored "$model"
    [[ "$(n_copied)" == $((total - 1)) ]] || fail "$victim: put twice: $(cat "$WORK/copied")"
done

# A watch puts each step where {n} says, once, and tries one again that failed.
DCP="$TESTS/data/torch/dcp_w2_bf16_qwen2"
afresh
mkdir "$WORK/run"
for step in 3 7; do cp -r "$DCP/source" "$WORK/run/step-$step"; done
watching=("$SHARDWELD" watch "$WORK/run" "$WORK/out-watch" --hf_config "$DCP/hf" --interval 0.1 --idle_exit 0 --no_fsync -q
    --put "$WORK/copy {} $store/step-{n}/{}")
echo '[[ "$2" != */step-7/config.json ]] || exit 1' >"$WORK/does"
expect_code 16 "${watching[@]}"
stored "$WORK/out-watch/step-3" "$store/step-3"
rm "$WORK/does" "$WORK/copied"
expect_code 0 "${watching[@]}"
stored "$WORK/out-watch/step-7" "$store/step-7"
[[ "$(sort -u "$WORK/copied" | tr '\n' ' ')" == "config.json " ]] || fail "a watch put again: $(cat "$WORK/copied")"
# --keep removes no output that is not where it is to be put.
afresh
rm -rf "$WORK/out-watch"
echo '[[ "$2" != */step-3/config.json ]] || exit 1' >"$WORK/does"
expect_code 16 "${watching[@]}" --keep 1
[[ -e "$WORK/out-watch/step-3/config.json" && -e "$store/step-7/config.json" ]] || fail "--keep removed what was not put: $(ls "$WORK/out-watch" "$store")"
rm "$WORK/does"
expect_code 0 "${watching[@]}" --keep 1
[[ -e "$store/step-3/config.json" && ! -e "$WORK/out-watch/step-3" ]] || fail "--keep kept what was put: $(ls "$WORK/out-watch" "$store")"
finish

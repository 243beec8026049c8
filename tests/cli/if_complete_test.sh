#!/usr/bin/env bash
# Finished work: no report of a good model is lost, a rerun can end well, and what killed runs left can be removed.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
KEEP_REPORTS=yes
CASE="$TESTS/data/megatron/llama-tp4-legacy-bf16"
place="$WORK/place" target="$WORK/place/model" report="$WORK/place/model.json" failed="$WORK/place/model.failed.json"
mkdir -p "$place"
cp -r "$CASE/source" "$CASE/hf" "$WORK"
merging=("$SHARDWELD" merge --local_dir "$WORK/source" --hf_config "$WORK/hf" --target_dir "$target" --report "$report" --no_fsync)

code_in() {
    [[ "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["exit"]["code"])' "$1")" == "$2" ]] || fail "$1 does not tell of code $2"
}
# A run that fails says so in its own report; that of the good model stays, and so does what it proves.
expect_code 0 "${merging[@]}"
first="$(sha256sum "$report")"
expect_code 12 "${merging[@]}"
expect_text "exists and is not empty"
code_in "$failed" 12
[[ "$(sha256sum "$report")" == "$first" ]] || fail "the report of the good model was replaced"
expect_code 0 "$SHARDWELD" verify "$target" --report "$report"
expect_code 3 mpirun -n 2 "$SHARDWELD" merge --local_dir "$WORK/nowhere" --target_dir "$target" --report "$report" --overwrite
code_in "$failed" 3
[[ "$(sha256sum "$report")" == "$first" ]] || fail "the report of the good model was replaced"
# Without a good one, a failure is told where it was asked for.
expect_code 3 "$SHARDWELD" merge --local_dir "$WORK/nowhere" --target_dir "$WORK/other" --report "$WORK/lone.json"
code_in "$WORK/lone.json" 3
# Another model's report is no place for this one's, until that model is gone.
expect_code 12 "$SHARDWELD" merge --local_dir "$WORK/source" --hf_config "$WORK/hf" --target_dir "$WORK/other" --report "$report"
expect_text "$report is the report of $target, which cannot be verified without it"
expect_absent "$WORK/other"
expect_code 12 "$SHARDWELD" test --local_dir "$WORK/source" --hf_config "$WORK/hf" --test_hf_dir "$target" --report "$report"
expect_code 0 "${merging[@]}" --overwrite
code_in "$report" 0

# A rerun of finished work ends well, and leaves everything as it is.
for how in verify skip; do
    for ranks in 1 3; do
        before="$(sum_of "$place")"
        expect_code 0 mpirun -n "$ranks" "${merging[@]}" --if_complete "$how" && expect_text "$target is complete"
        [[ "$(sum_of "$place")" == "$before" ]] || fail "--if_complete $how has changed something"
    done
done
# Not where it is another's, or not known to be this one's.
expect_code 12 "${merging[@]}" --if_complete verify --dtype fp32
expect_text "not known to be this merge's output: it was made with"
expect_code 12 "$SHARDWELD" merge --local_dir "$WORK/source" --hf_config "$WORK/hf" --target_dir "$target" --if_complete skip
expect_text "it holds no shardweld_report.json that tells what it is"
sed 's/"rms_norm_eps"/"rms_norm_eps_"/' "$CASE/hf/config.json" >"$WORK/hf/config.json"
expect_code 12 "${merging[@]}" --if_complete skip
expect_text "config.json has changed since"
cp "$CASE/hf/config.json" "$WORK/hf/config.json"
shard="$(find "$WORK/source" -name '*.pt' | sort | head -1)"
cp -p "$shard" "$WORK/shard"
touch "$shard"
expect_code 12 "${merging[@]}" --if_complete skip
expect_text "was written again since"
cp -p "$WORK/shard" "$shard"
mv "$target/config.json" "$WORK/config.json"
expect_code 12 "${merging[@]}" --if_complete skip
expect_text "config.json is missing"
mv "$WORK/config.json" "$target"
# Only a reading finds a byte that changed.
weights="$(find "$target" -name '*.safetensors' | head -1)"
size="$(stat -c %s "$weights")"
cp -p "$weights" "$WORK/weights"
printf '\x55\xaa\x55\xaa' | dd of="$weights" bs=1 seek=$((size - 4)) conv=notrunc status=none
expect_code 0 "${merging[@]}" --if_complete skip
expect_code 13 "${merging[@]}" --if_complete verify
expect_text "is not what its report says"
expect_code 0 "${merging[@]}" --if_complete verify --overwrite
expect_code 0 "${merging[@]}" --if_complete verify
# Nothing there: it is made. Several outputs: those that are there stay.
rm -rf "$target" "$report"
expect_code 0 "${merging[@]}" --if_complete verify --also "$place/fp32:fp32"
expect_code 0 "${merging[@]}" --if_complete verify --also "$place/fp32:fp32"
expect_text "is complete"

# What a killed run left is listed and removed; what a living one holds is not.
slow() {
    "$SHARDWELD" merge --local_dir "$WORK/source" --hf_config "$WORK/hf" --target_dir "$place/$1" --bw_limit 100K -q --no_fsync &
    until [[ -e "$place/.$1.shardweld-partial/journal" ]]; do sleep 0.05; done
}
slow dead
kill -KILL $! && wait $! 2>/dev/null
slow alive
alive=$!
partial="$place/.dead.shardweld-partial"
expect_code 0 "$SHARDWELD" clean "$place" --dry_run && expect_out "would go" && expect_out "$partial"
[[ -e "$partial" ]] || fail "--dry_run has removed $partial"
expect_code 0 "$SHARDWELD" clean "$WORK" --older_than 1h && expect_out "young"
[[ -e "$partial" ]] || fail "a young one was removed"
expect_code 15 "$SHARDWELD" merge --local_dir "$WORK/source" --hf_config "$WORK/hf" --target_dir "$place/alive"
expect_text "another run is writing $place/alive: process $alive "
expect_code 0 "$SHARDWELD" clean "$WORK" && expect_out "removed" && expect_out "live"
expect_absent "$partial"
expect_absent "$place/.dead.shardweld-lock"
[[ -e "$place/.alive.shardweld-partial" && -e "$place/.alive.shardweld-lock" ]] || fail "a living run lost its work"
[[ -e "$target/config.json" ]] || fail "a model was removed"
kill -KILL "$alive" && wait "$alive" 2>/dev/null
# A day ago: by its files' times.
find "$place/.alive.shardweld-partial" "$place/.alive.shardweld-lock" -exec touch -d '2 days ago' {} +
expect_code 0 "$SHARDWELD" clean "$place" --older_than 7d && expect_out "young"
expect_code 0 "$SHARDWELD" clean "$place" --older_than 1d --json && expect_out '"fate": "removed"'
expect_absent "$place/.alive.shardweld-partial"
expect_code 3 "$SHARDWELD" clean "$WORK/nowhere"
finish

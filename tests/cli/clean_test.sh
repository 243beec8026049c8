#!/usr/bin/env bash
# What a killed run left is listed and removed by clean; what a living one holds is not.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
CASE="$TESTS/data/megatron/llama-tp4-legacy-bf16"
place="$WORK/place" target="$WORK/place/model"
mkdir -p "$place"
expect_code 0 "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$target" -q --no_fsync
slow() {
    "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$place/$1" --bw_limit 100K -q --no_fsync &
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
expect_code 15 "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$place/alive"
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

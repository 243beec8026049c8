#!/usr/bin/env bash
# --also after a kill: the same command goes on with all outputs, and gives what merges of their own do. Else rows of tests/cases/also.txt and
# reshape_also.txt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/resume_lib.sh"

# read_bytes REPORT: of tensors, by all ranks.
read_bytes() {
    python3 -c 'import json, sys; print(sum(phase["bytes_read"] for phase in json.load(open(sys.argv[1]))["phases"] if phase["name"] == "execute"))' "$1"
}

# same_reads REPORT REPORT
same_reads() {
    [[ "$(read_bytes "$1")" == "$(read_bytes "$2")" ]] || fail "$1: something is read twice"
}

# same_model DIR DIR
same_model() {
    diff -r -x shardweld_report.json "$1" "$2" >"$WORK/diff" 2>&1 || fail "$1 and $2 differ: $(head -3 "$WORK/diff")"
}

# A killed run: the same command goes on with all outputs, and gives what merges of their own do.
"$MAKE" --gb 0.1 --tp 2 "$WORK/big" >/dev/null || fail "make_checkpoint"
alone=(merge --local_dir "$WORK/big/source" --hf_config "$WORK/big/hf" -q --no_fsync)
expect_code 0 "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/reference" --report "$WORK/reference.json"
expect_code 0 "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/reference-fp8" --quantize fp8-channel
expect_code 0 "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/reference-gguf" --quantize gguf:q4_1
both=(--also "$WORK/resumed-fp8:fp8-channel" --also "$WORK/resumed-gguf:gguf:q4_1")
merge_of big 3 --no_fsync -q --strategy collective --report "$WORK/once.json" "${both[@]}"
expect_code 0 "${command[@]}"
same_reads "$WORK/once.json" "$WORK/reference.json"
same_model "$WORK/resumed-gguf" "$WORK/reference-gguf"
rm -rf "$WORK/merged" "$WORK"/resumed-*
merge_of big 2 --no_fsync --bw_limit 100MB -q "${both[@]}"
signalled KILL one 137 40
[[ "$(find "$WORK"/.resumed-{fp8,gguf}.shardweld-partial -name '*-*' | wc -l)" -ge 4 ]] || fail "nothing is kept of the other outputs"
merge_of big 3 --no_fsync -q --strategy collective --report "$WORK/resumed.json" "${both[@]}"
expect_code 0 "${command[@]}"
same_model "$WORK/merged" "$WORK/reference"
same_model "$WORK/resumed-fp8" "$WORK/reference-fp8"
same_model "$WORK/resumed-gguf" "$WORK/reference-gguf"
python3 - "$WORK"/resumed.json "$WORK"/resumed.also-{1,2}.json <<'EOF' || fail "nothing was taken over"
import json, sys
assert all(json.load(open(path))["resume"]["blocks_reused"] > 0 for path in sys.argv[1:])
EOF

# A quantised merge alone goes on, too; what of several outputs appeared before a kill is not made again.
rm -rf "$WORK/merged"
merge_of big 2 --no_fsync --bw_limit 100MB -q --quantize w8a16
signalled KILL one 137 40
merge_of big 3 --no_fsync -q --quantize w8a16
expect_code 0 "${command[@]}"
expect_code 0 "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/reference-w8a16" --quantize w8a16
same_model "$WORK/merged" "$WORK/reference-w8a16"
rm -rf "$WORK/merged"
merge_of big 2 --no_fsync --bw_limit 100MB -q
signalled KILL one 137 40
stat -c %i "$WORK/resumed-fp8" >"$WORK/$JOURNAL/published"
merge_of big 2 --no_fsync --also "$WORK/resumed-fp8:fp8-channel"
expect_code 0 "${command[@]}"
expect_text "resumed-fp8 is complete"
same_model "$WORK/merged" "$WORK/reference"

# A training checkpoint beside a model, killed in the rounds of either.
expect_code 0 "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/reference-fsdp" --to fsdp:world=3
both=(--also "$WORK/resumed-fsdp:fsdp:world=3")
for output in merged resumed-fsdp; do
    JOURNAL=".$output.shardweld-partial/journal"
    rm -rf "$WORK/merged" "$WORK"/resumed-*
    merge_of big 2 --no_fsync --bw_limit 200MB -q "${both[@]}"
    signalled KILL one 137 40
    merge_of big 3 --no_fsync -q --strategy collective "${both[@]}"
    expect_code 0 "${command[@]}"
    same_model "$WORK/merged" "$WORK/reference"
    same_model "$WORK/resumed-fsdp" "$WORK/reference-fsdp"
    expect_code 0 "$SHARDWELD" verify "$WORK/resumed-fsdp" -q
done
finish

#!/usr/bin/env bash
# --bw_limit: merges take the time that the limit asks for at least. --max_readers: so many ranks read. The output is the same.
source "$(dirname "$0")/lib.sh"
CASE="$TESTS/data/megatron/llama-tp4-legacy-bf16"

now() { date +%s.%N; }
took_its_time() { # WHAT BYTES LIMIT BEGIN END
    awk -v bytes="$2" -v limit="$3" -v begin="$4" -v end="$5" 'BEGIN { exit !(bytes > 2.5 * limit && end - begin >= bytes / limit) }' ||
        fail "$1: $2 bytes at $3 a second took from $4 to $5"
}
moved() { # bytes read and written, as the report counts them
    python3 -c 'import json, sys
print(sum(phase["bytes_read"] + phase["bytes_written"] for phase in json.load(open(sys.argv[1]))["phases"]))' "$WORK/report.json"
}

merge_case "$CASE" "$WORK/merged" 0 --report "$WORK/report.json"
same_as_expected "$CASE" "$WORK/merged"
sum="$(sum_of "$WORK/merged")"
limit=$(($(moved) / 3))
for way in "0 direct" "3 direct" "3 collective"; do
    read -r ranks strategy <<<"$way"
    rm -rf "$WORK/again"
    begin=$(now)
    merge_case "$CASE" "$WORK/again" "$ranks" --strategy "$strategy" --bw_limit "$limit" --report "$WORK/report.json"
    took_its_time "$way" "$(moved)" "$limit" "$begin" "$(now)"
    [[ "$(sum_of "$WORK/again")" == "$sum" ]] || fail "$way: other bytes under --bw_limit"
done

# Comparing counts what is read of both models.
bytes=$(du -bc "$WORK/merged"/*.safetensors | awk 'END { print $1 }')
begin=$(now)
expect_code 0 mpirun -n 2 "$SHARDWELD" diff "$WORK/merged" "$WORK/merged" --bw_limit $((bytes / 2))
took_its_time diff $((bytes * 2 * 9 / 10)) $((bytes / 2)) "$begin" "$(now)"

# Checksums of files count as what they are: reading.
for ranks in 0 2; do
    rm -rf "$WORK/again"
    begin=$(now)
    merge_case "$CASE" "$WORK/again" "$ranks" --sha256 --bw_limit "$limit" --report "$WORK/report.json"
    took_its_time "--sha256 with ${ranks/0/no} ranks" $(($(moved) + bytes)) "$limit" "$begin" "$(now)"
done
begin=$(now)
expect_code 0 "$SHARDWELD" verify "$WORK/again" --sha256 --report "$WORK/report.json" --bw_limit $((bytes / 2))
took_its_time verify $((bytes * 2 * 9 / 10)) $((bytes / 2)) "$begin" "$(now)"

# readers: how many ranks of the report read tensors, and the strategy.
readers() {
    python3 -c 'import json, sys
report = json.load(open(sys.argv[1]))
print(sum(rank["bytes_read"] > 0 for rank in report["ranks"]), report["plan"]["strategy"])' "$WORK/report.json"
}
for way in "1 collective" "2 collective" "5 direct" "9 direct"; do
    n=${way% *}
    rm -rf "$WORK/again"
    merge_case "$CASE" "$WORK/again" 5 --max_readers "$n" --report "$WORK/report.json"
    [[ "$(readers)" == "$((n > 5 ? 5 : n)) ${way#* }" ]] || fail "--max_readers $n of 5: $(readers)"
    [[ "$(sum_of "$WORK/again")" == "$sum" ]] || fail "--max_readers $n: other bytes"
done
expect_code 2 "$SHARDWELD" merge --local_dir "$CASE/source" --strategy direct --max_readers 1
expect_text "--max_readers and --strategy direct exclude each other"

expect_code 2 "$SHARDWELD" merge --local_dir "$CASE/source" --bw_limit 0
expect_text "--bw_limit 0 is not a size"

finish

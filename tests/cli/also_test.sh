#!/usr/bin/env bash
# --also from outside: several outputs from one read have the bytes of merges of their own at several numbers of ranks and with both
# strategies, each with a report that verify believes; what is refused; all of them go on after a kill.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"
source "$(dirname "${BASH_SOURCE[0]}")/resume_lib.sh"
data="$TESTS/data/quant"

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

forms=(fp8-block w8a16 w4a16 fp32 gguf:q8_0 gguf:q4_0)
input="$data/llama192/input"
alone=(merge --backend hf --local_dir "$input" -q --no_fsync)
expect_code 0 "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/alone" --report "$WORK/alone.json"
for form in "${forms[@]}"; do
    option=(--quantize "$form")
    [[ "$form" != fp32 ]] || option=(--dtype fp32)
    expect_code 0 "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/alone-$form" "${option[@]}"
done

ways=("1 direct" "2 collective" "3 direct")
[[ -z "${SHARDWELD_ALL_WAYS:-}" ]] || ways_of 1 2 3 5 8
for way in "${ways[@]}"; do
    read -r ranks strategy <<<"$way"
    launcher=()
    ((ranks == 1)) || launcher=(mpirun -n "$ranks")
    also=()
    for form in "${forms[@]}"; do also+=(--also "$WORK/also-$form:$form"); done
    expect_code 0 "${launcher[@]}" "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/all" --strategy "$strategy" --overwrite \
        --report "$WORK/all.json" "${also[@]}"
    same_model "$WORK/all" "$WORK/alone"
    for at in "${!forms[@]}"; do
        same_model "$WORK/also-${forms[at]}" "$WORK/alone-${forms[at]}"
        expect_code 0 "$SHARDWELD" verify "$WORK/also-${forms[at]}" --report "$WORK/all.also-$((at + 1)).json" -q
    done
    # Where small tensors are sent, gaps between them are read, too.
    [[ "$strategy" == collective ]] || same_reads "$WORK/all.json" "$WORK/alone.json"
done

# GGUF beside a first output of codes, whose strips are whole heads then; experts in one tensor.
for model in "llama192 fp8-channel" "qwen3moe128 w8a16"; do
    read -r name form <<<"$model"
    more=(merge --backend hf --local_dir "$data/$name/input" -q --no_fsync --overwrite)
    expect_code 0 mpirun -n 2 "$SHARDWELD" "${more[@]}" --target_dir "$WORK/all" --quantize "$form" --also "$WORK/also-gguf:gguf:q5_1" --also "$WORK/also-plain"
    expect_code 0 "$SHARDWELD" "${more[@]}" --target_dir "$WORK/alone-first" --quantize "$form"
    expect_code 0 "$SHARDWELD" "${more[@]}" --target_dir "$WORK/alone-gguf" --quantize gguf:q5_1
    same_model "$WORK/all" "$WORK/alone-first"
    same_model "$WORK/also-gguf" "$WORK/alone-gguf"
done

# A quantised first output leads as well; NVFP4's divisors belong to one of them; small files.
expect_code 0 mpirun -n 2 "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/first" --quantize w4a16 --also "$WORK/second" \
    --also "$WORK/third:nvfp4a16" --max_shard_size 100KiB
expect_code 0 "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/alone-third" --quantize nvfp4a16 --max_shard_size 100KiB
expect_code 2 "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/none" --also "$WORK/second-none"
expect_text "is the same as another output"
same_model "$WORK/third" "$WORK/alone-third"

# The summary of each output tells of the whole run.
expect_code 0 mpirun -n 2 "$SHARDWELD" merge --backend hf --local_dir "$input" --no_fsync --overwrite -v --target_dir "$WORK/first" \
    --also "$WORK/second:fp8-block"
n_files=$(find "$input" -name '*.safetensors' | wc -l)
[[ "$(grep -c "with 2 ranks,.* from $n_files shard file" "$WORK/err")" == 2 ]] || fail "a summary is not of the whole run: $(grep with "$WORK/err")"

# Refused before anything is read: targets in each other, the source, a form that is none, several checkpoints.
refused() {
    local code="$1" text="$2"
    shift 2
    expect_code "$code" "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/none" "$@"
    expect_text "$text"
    expect_absent "$WORK/none"
}
refused 12 "lie in each other" --also "$WORK/none/inner:fp8-block"
refused 12 "are one" --also "$WORK/x/../none:fp8-block"
refused 12 "is read as input" --also "$input:fp8-block"
refused 12 "exists and is not empty" --also "$WORK/alone-fp32:fp8-block"
refused 2 "is not DIR or DIR:FORM" --also "$WORK/other:fp7"
refused 2 "is no GGUF file" --quantize gguf:q8_0 --also "$WORK/other"
phi3="$TESTS/data/megatron_families/phi3-tp2-torchdist-bf16"
expect_code 5 "$SHARDWELD" merge --local_dir "$phi3/source" --hf_config "$phi3/hf" --target_dir "$WORK/none" --also "$WORK/other:gguf:q8_0" -q
expect_text "no GGUF template for the family phi3"
expect_absent "$WORK/none"

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
finish

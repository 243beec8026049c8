#!/usr/bin/env bash
# Several checkpoints in one model: averages and deltas of mixed frameworks, types and grids against Python's own arithmetic, the same bytes
# at any number of ranks with both strategies; a merge that goes on where it was killed. What is refused: tests/cases/average.txt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"

MIX="$TESTS/support/mix_models.py"
ways=0

# alone NAME SOURCE [options]: that checkpoint merged by itself, in its own types.
alone() {
    local name="$1" source="$2"
    shift 2
    expect_code 0 "$SHARDWELD" merge --local_dir "$source" --target_dir "$WORK/$name" --no_fsync -q "$@"
}

# mixed KIND FACTORS "MODEL ..." [options]: the mix of the checkpoints in ${sources[@]}, whose models alone are in these directories, is
# what Python makes of them; then the same files in other ways. The report has every part, and its ledger closes.
mixed() {
    local kind="$1" factors="$2" models="$3" sum ranks strategy
    shift 3
    local command=("$SHARDWELD" merge --target_dir "$WORK/mixed" --overwrite --no_fsync -q --report "$WORK/report.json" "$@" "${sources[@]}")
    expect_code 0 "${command[@]}" || return
    (cd "$WORK" && python3 "$MIX" check mixed "$kind" "$factors" $models) 2>"$WORK/compare" || fail "$kind $factors of $models: $(<"$WORK/compare")"
    python3 - "$WORK/report.json" "${#sources[@]}" "$kind" <<'PYTHON' || fail "the report of $kind $factors"
import json, sys
report, count, kind = json.load(open(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
parts = report["mixed"]
assert len(parts) == count + (kind == "delta"), parts
assert [part["is_base"] for part in parts] == [kind == "delta"] + [False] * (len(parts) - 1)
assert all(part["provenance"]["standing"] for part in parts)
for ledger in [report["ledger"]] + [part["ledger"] for part in parts]:
    assert ledger["stored"] == ledger["consumed"] + ledger["replica"] + ledger["padding"] + sum(row["bytes"] for row in ledger["ignored"])
assert report["ledger"]["stored"] == sum(part["ledger"]["stored"] for part in parts)
assert all(len(tensor["sources"]) >= len(parts) for tensor in report["tensors"] if "float" in tensor["dtype"]), "sources"
PYTHON
    sum="$(sum_of "$WORK/mixed")"
    for ranks in 1 2 3 5 8; do
        for strategy in direct collective; do
            ways=$((ways + 1))
            [[ -n "${SHARDWELD_ALL_WAYS:-}" ]] || ((ways % 10 == 3 || ways % 10 == 8)) || continue
            expect_code 0 mpirun -n "$ranks" "${command[@]}" --strategy "$strategy" --memory_limit 1MiB || continue
            [[ "$(sum_of "$WORK/mixed")" == "$sum" ]] || fail "$kind $factors of $models: other bytes with $ranks ranks, $strategy"
            [[ "$(report_fields strategy)" == "$strategy" ]] || fail "strategy $(report_fields strategy)"
        done
    done
    ways=$((ways + 1))
}

# FSDP, DCP and finished models of one family, in bf16, fp16 and fp32.
torch="$TESTS/data/torch"
alone fsdp "$torch/plain_w1_bf16_qwen2/source"
alone dcp "$torch/dcp_w2_bf16_qwen2/source" --hf_config "$torch/dcp_w2_bf16_qwen2/hf"
python3 "$MIX" vary "$WORK/fsdp" "$WORK/fp32" F32 1
python3 "$MIX" vary "$WORK/dcp" "$WORK/fp16" F16 2
sources=("$torch/plain_w1_bf16_qwen2/source" "$torch/dcp_w2_bf16_qwen2/source" "$WORK/fp32" "$WORK/fp16")
mixed average "" "fsdp dcp fp32 fp16" --average
mixed average "0.2,0.8,-0.3,0.123456789" "fsdp dcp fp32 fp16" --average --average_weights 0.2,0.8,-0.3,0.123456789 --dtype fp32
sources=("$WORK/fp32" "$torch/dcp_w2_bf16_qwen2/source" "$WORK/fp16")
mixed average decay=0.7 "fp32 dcp fp16" --average --average_decay 0.7
sources=("$WORK/fp16" "$torch/plain_w1_bf16_qwen2/source")
mixed delta 0.6,-0.4 "dcp fp16 fsdp" --delta "$torch/dcp_w2_bf16_qwen2/source" --scale 0.6,-0.4 --dtype bf16
sources=("$torch/plain_w1_bf16_qwen2/source")
mixed delta 0.3 "fp32 fsdp" --delta "$WORK/fp32" --scale 0.3

# Megatron checkpoints of other grids, with a finished model. plan knows the merge; test compares with it.
megatron="$TESTS/data/megatron"
config=(--hf_config "$megatron/llama-tp4-legacy-bf16/hf")
alone tp4 "$megatron/llama-tp4-legacy-bf16/source" "${config[@]}"
alone vpp2 "$megatron/llama-tp2-pp2-vpp2-legacy-bf16/source" "${config[@]}"
python3 "$MIX" vary "$WORK/tp4" "$WORK/varied" F32 3
sources=("$megatron/llama-tp4-legacy-bf16/source" "$megatron/llama-tp2-pp2-vpp2-legacy-bf16/source" "$WORK/varied")
mixed average "0.5,0.3,0.2" "tp4 vpp2 varied" --average --average_weights 0.5,0.3,0.2 "${config[@]}"
average=(--average --average_weights 0.5,0.3,0.2 "${config[@]}")
expect_code 0 "$SHARDWELD" plan "${average[@]}" "${sources[@]}" --json
python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["hash"] != json.load(open(sys.argv[2]))["plan"]["hash"])' \
    "$WORK/out" "$WORK/report.json" || fail "plan and merge have other hashes"
expect_code 0 mpirun -n 2 "$SHARDWELD" test "${average[@]}" "${sources[@]}" "$WORK/mixed" --atol 0 --rtol 0 -q
expect_code 13 "$SHARDWELD" test "${average[@]}" "${sources[@]}" "$WORK/tp4" --atol 0 --rtol 0 -q
expect_code 0 "$SHARDWELD" merge "${average[@]}" "${sources[@]}" "$WORK/traced" --no_fsync --trace model.norm.weight
[[ "$(grep -c 'trace:.*elements from' "$WORK/err")" == 3 ]] || fail "the trace does not show the three sources: $(grep trace: "$WORK/err")"

# HDF5 holds the same bytes.
if [[ -e "$(dirname "$SHARDWELD")/shardweld_hdf5.so" ]] && command -v h5dump >/dev/null; then
    expect_code 0 "$SHARDWELD" merge "${average[@]}" "${sources[@]}" "$WORK/hdf5" --output_format hdf5 --no_fsync -q
    python3 "$TESTS/support/compare_hdf5.py" "$WORK/hdf5" "$WORK/mixed" >/dev/null 2>"$WORK/compare" || fail "HDF5: $(<"$WORK/compare")"
fi

# Killed in the middle, and gone on with.
if faults_at "$megatron" "$WORK"; then
    expect_code 137 "${faulty[@]}" "call=write,side=output,nth=12,do=signal:9" "$SHARDWELD" merge "${average[@]}" "${sources[@]}" \
        --target_dir "$WORK/killed" -q --no_fsync --max_shard_size 100kB --memory_limit 1MiB
    expect_absent "$WORK/killed"
    expect_code 0 "$SHARDWELD" merge "${average[@]}" "${sources[@]}" --target_dir "$WORK/killed" -q --max_shard_size 100kB --resume \
        --report "$WORK/report.json"
    expect_code 0 "$SHARDWELD" merge "${average[@]}" "${sources[@]}" --target_dir "$WORK/whole" -q --max_shard_size 100kB
    diff -r -x shardweld_report.json "$WORK/killed" "$WORK/whole" >"$WORK/diff" || fail "the resumed average is another one: $(head -3 "$WORK/diff")"
    python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["resume"]["bytes_reused"] == 0)' "$WORK/report.json" || fail "nothing was reused"
fi

# One small model as Megatron, FSDP and DeepSpeed save it: fp32 masters of ZeRO-3 with bf16 of the others.
MAKE="$(dirname "$SHARDWELD")/make_checkpoint"
sources=()
for layout in legacy fsdp zero3 torch_dist; do
    name="one_$layout"
    "$MAKE" --format "$layout" --gb 0.0001 --vocab 101 --seed "${#sources[@]}" "$WORK/$name.made" >/dev/null || fail "make_checkpoint $layout"
    alone "$name" "$WORK/$name.made/source" --hf_config "$WORK/$name.made/hf"
    sources+=("$WORK/$name.made/source")
done
config=(--hf_config "$WORK/one_legacy.made/hf")
mixed average "0.4,0.3,0.2,0.1" "one_legacy one_fsdp one_zero3 one_torch_dist" --average --average_weights 0.4,0.3,0.2,0.1 "${config[@]}"
sources=("${sources[@]:1}")
mixed delta 0.5,-0.25,0.125 "one_legacy one_fsdp one_zero3 one_torch_dist" --delta "$WORK/one_legacy.made/source" --scale 0.5,-0.25,0.125 \
    "${config[@]}"

# Integers are taken as they are, and must be the same in all.
deepspeed="$TESTS/data/deepspeed/zero2_w2_tied"
alone counted "$deepspeed/source" --hf_config "$deepspeed/hf"
python3 "$MIX" vary "$WORK/counted" "$WORK/recounted" F32 4
sources=("$deepspeed/source" "$WORK/recounted")
mixed average "" "counted recounted" --average --hf_config "$deepspeed/hf"
finish

#!/usr/bin/env bash
# What every format must do besides merging: inspect, plan, test, --trace, HDF5 output, and going on after a kill. Each case in one of these
# ways; with SHARDWELD_ALL_WAYS=1 in all, and merged at 1, 2, 3, 5 and 8 ranks with both strategies: the table of formats against ways, by hand.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"
data="$TESTS/data"

# A case of each reader: directory below tests/data, and whose config and expected model it has.
cases=(deepspeed/zero2_w2_oddsizes deepspeed/zero3_w2_buffers deepspeed/autotp_zero1_tp2dp2 deepspeed/universal_tp2:deepspeed/autotp_zero1_tp2dp2
    colossalai/tp2_pp2_w4_fp32 colossalai/tp2_w2_fp32 bytecheckpoint/ddp_w2_fp32_qwen3 bytecheckpoint/fsdp2_w3_bf16_qwen2_tied
    megatron_more/llama-w3-fsdp-dtensor-made megatron_more/gpt2-v1-tp2-legacy-made megatron/llama-mha-v0-tp2-pp2-legacy-made megatron/qwen2-tied-tp2-zarr
    megatron_lora/llama-tp2-torchdist-fp32 world/accelerate_fsdp2_ranks world/lightning_fsdp world/torchtitan_llama3
    world/torch_checkpointing_safetensors)
has_hdf5=0
[[ ! -e "$(dirname "$SHARDWELD")/shardweld_hdf5.so" ]] || has_hdf5=1

# Each way takes the case's options from $given, and the merged model from $model.
inspected() {
    expect_code 0 "$SHARDWELD" inspect "${given[@]}"
    [[ -s "$WORK/out" ]] || fail "$name: inspect says nothing"
}
planned() {
    expect_code 0 "$SHARDWELD" plan "${given[@]}" --json
    python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["tensors"]' "$WORK/out" 2>/dev/null || fail "$name: plan names no tensors"
}
tested() {
    expect_code 0 mpirun -n 2 "$SHARDWELD" test "${given[@]}" --test_hf_dir "$model" -q
}
traced() {
    local tensor
    tensor="$("$SHARDWELD" plan "${given[@]}" --json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["tensors"][0]["name"])')"
    rm -rf "$WORK/traced"
    expect_code 0 "$SHARDWELD" merge "${given[@]}" --target_dir "$WORK/traced" --trace "$tensor" --no_fsync
    expect_text "$tensor"
    [[ "$(sum_of "$WORK/traced")" == "$(sum_of "$model")" ]] || fail "$name: other bytes with --trace"
}
as_hdf5() {
    ((has_hdf5 == 1)) || return 0
    rm -rf "$WORK/hdf5"
    local adapter=()
    [[ ! -d "$model/lora_adapter" ]] || adapter=(--lora drop) # which is written as safetensors only
    expect_code 0 mpirun -n 3 "$SHARDWELD" merge "${given[@]}" "${adapter[@]}" --target_dir "$WORK/hdf5" --output_format hdf5 --no_fsync -q || return
    expect_code 0 "$SHARDWELD" test --backend hdf5 --local_dir "$WORK/hdf5" --test_hf_dir "$model" -q
}
# Killed when all is written and nothing is published yet: what was written is used again.
resumed() {
    rm -rf "$WORK/place"
    mkdir "$WORK/place"
    faults_at "$WORK/none" "$WORK/place" || return 0
    expect_code 137 "${faulty[@]}" "call=rename,side=output,phase=publish,do=signal:9" "$SHARDWELD" merge "${given[@]}" --target_dir "$WORK/place/model" -q 2>/dev/null # what bash says of it
    expect_code 0 "$SHARDWELD" merge "${given[@]}" --target_dir "$WORK/place/model" --resume --report "$WORK/report.json" -q || return
    python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["resume"]["bytes_reused"] > 0' "$WORK/report.json" || fail "$name: nothing reused"
    [[ "$(sum_of "$WORK/place/model")" == "$(sum_of "$model")" ]] || fail "$name: other bytes when resumed"
}
ways=(inspected planned tested traced as_hdf5 resumed)

number=0
for case in "${cases[@]}"; do
    name="${case%%:*}"
    like="$data/${case##*:}"
    model="$WORK/model"
    given=(--local_dir "$data/$name/source" --hf_config "$like/hf")
    rm -rf "$model"
    expect_code 0 "$SHARDWELD" merge "${given[@]}" --target_dir "$model" --no_fsync -q || continue
    if [[ -z "${SHARDWELD_ALL_WAYS:-}" ]]; then
        "${ways[number++ % ${#ways[@]}]}"
        continue
    fi
    for way in "${ways[@]}"; do
        "$way"
    done
    for ranks in 1 2 3 5 8; do
        for strategy in direct collective; do
            rm -rf "$WORK/again"
            expect_code 0 mpirun -n "$ranks" "$SHARDWELD" merge "${given[@]}" --target_dir "$WORK/again" --strategy "$strategy" --no_fsync -q
            [[ "$(sum_of "$WORK/again")" == "$(sum_of "$model")" ]] || fail "$name: other bytes at $ranks ranks, $strategy"
        done
    done
done
finish

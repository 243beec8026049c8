#!/usr/bin/env bash
# --supplement takes what the model has and the checkpoint does not from a reference, as a whole module, and says what it took.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case="$TESTS/data/megatron/deepseekv3-mtp-pp2-torchdist-bf16"
config=(--hf_config "$case/hf" --no_fsync -q)

# without NAME REGEX: the model without the tensors of these names
without() {
    expect_code 0 "$SHARDWELD" merge --local_dir "$case/source" "${config[@]}" --exclude "$2" --target_dir "$WORK/$1"
}

# is_whole DIRECTORY: it has all tensors, and config.json promises what is there
is_whole() {
    python3 "$TESTS/support/compare_safetensors.py" "$1" "$WORK/whole" >"$WORK/diff" 2>&1 || fail "$1: $(tail -2 "$WORK/diff")"
    cmp -s "$1/config.json" "$WORK/whole/config.json" || fail "$1: another config.json"
}

expect_code 0 "$SHARDWELD" merge --local_dir "$case/source" "${config[@]}" --target_dir "$WORK/whole"
without no_mtp '^model\.layers\.4\.'

# MTP layers that training did not hold, in each form of names and with each strategy.
for form in torch_dist legacy:tp=2 fsdp:world=2; do
    trained="$WORK/trained-$form"
    expect_code 0 "$SHARDWELD" reshape "$WORK/no_mtp" "$trained" --to "$form" "${config[@]}"
    expect_code 0 mpirun -n 3 "$SHARDWELD" merge "$trained" "$WORK/made-$form" --supplement "$WORK/whole" --hf_config "$case/hf" --no_fsync
    expect_text "gives 30 tensors that the checkpoint does not have: model.layers.4."
    is_whole "$WORK/made-$form"
done
expect_code 0 mpirun -n 2 "$SHARDWELD" merge "$WORK/trained-legacy:tp=2" "$WORK/collective" --supplement "$WORK/whole" "${config[@]}" --strategy collective
is_whole "$WORK/collective"
python3 - "$WORK/collective/shardweld_report.json" <<'P' || fail "the report does not list what was taken"
import json, sys
report = json.load(open(sys.argv[1]))
assert len(report["supplement"]) == 30 and all(name.startswith("model.layers.4.") for name in report["supplement"]), report["supplement"]
P
grep -q "30 tensors of a reference" "$WORK/collective/README.md" || fail "the card does not say what was taken"

# Another training checkpoint, and the model itself, complete too.
expect_code 0 "$SHARDWELD" reshape "$WORK/trained-torch_dist" "$WORK/again" --to legacy:tp=2 --supplement "$WORK/whole" "${config[@]}"
expect_code 0 "$SHARDWELD" merge "$WORK/again" "$WORK/back" "${config[@]}"
is_whole "$WORK/back"
expect_code 0 "$SHARDWELD" merge "$WORK/no_mtp" "$WORK/completed" --supplement "$WORK/whole" "${config[@]}"
is_whole "$WORK/completed"

# A head; without a reference the message names the option.
without no_head '^lm_head'
expect_code 6 "$SHARDWELD" merge "$WORK/no_head" "$WORK/none" --dtype bf16 "${config[@]}" && expect_text "--supplement"
expect_code 0 "$SHARDWELD" merge "$WORK/no_head" "$WORK/headed" --supplement "$WORK/whole" "${config[@]}"
is_whole "$WORK/headed"

# Never a part of what was trained: both names are told.
for part in '^model\.layers\.4\.mlp' '^model\.layers\.2\.' '\.1\.self_attn\.o_proj'; do
    rm -rf "$WORK/part"
    without part "$part"
    expect_code 6 mpirun -n 2 "$SHARDWELD" merge "$WORK/part" "$WORK/none" --supplement "$WORK/whole" "${config[@]}"
    expect_text "of the same module"
done

# A tower, which no line of the recipe names one by one. Without a reference the warning names the option.
vision="$TESTS/data/torch/fsdp2_qwen2vl_w2_bf16"
expect_code 0 "$SHARDWELD" merge "$vision/source" "$WORK/sees" --no_fsync -q
expect_code 0 "$SHARDWELD" merge "$WORK/sees" "$WORK/blind" --exclude '^visual' --no_fsync -q
expect_code 0 "$SHARDWELD" reshape "$WORK/blind" "$WORK/blind_run" --to torch_dist --no_fsync -q
expect_code 0 "$SHARDWELD" merge "$WORK/blind_run" "$WORK/still_blind" --no_fsync && expect_text "--supplement DIR takes it from another model"
expect_code 0 mpirun -n 2 "$SHARDWELD" merge "$WORK/blind_run" "$WORK/sees_again" --supplement "$WORK/sees" --no_fsync
cmp "$WORK/sees/model.safetensors" "$WORK/sees_again/model.safetensors" || fail "the tower"
expect_code 0 "$SHARDWELD" merge "$WORK/sees" "$WORK/half_blind" --exclude '^visual.blocks.1' --no_fsync -q
expect_code 6 "$SHARDWELD" merge "$WORK/half_blind" "$WORK/none" --supplement "$WORK/sees" --no_fsync && expect_text "does not have visual.blocks.1.attn.proj.bias, but visual.blocks.0"

# What both lack, a reference of another model or type, and nothing to take.
expect_code 6 "$SHARDWELD" merge "$WORK/no_head" "$WORK/none" --supplement "$WORK/no_head" "${config[@]}" && expect_text "with what the reference $WORK/no_head has"
expect_code 6 "$SHARDWELD" merge "$WORK/no_head" "$WORK/none" --supplement "$TESTS/data/megatron/llama-tp4-legacy-bf16/expected" "${config[@]}"
expect_code 0 "$SHARDWELD" merge "$WORK/whole" "$WORK/wide" --dtype fp32 "${config[@]}"
expect_code 6 "$SHARDWELD" merge "$WORK/no_head" "$WORK/none" --supplement "$WORK/wide" "${config[@]}" && expect_text " is float32 in the reference $WORK/wide and bfloat16 in the checkpoint"
expect_code 0 "$SHARDWELD" merge "$WORK/no_head" "$WORK/narrow" --supplement "$WORK/wide" --dtype bf16 "${config[@]}"
is_whole "$WORK/narrow"
expect_code 0 "$SHARDWELD" merge "$case/source" "$WORK/nothing" --supplement "$WORK/whole" --hf_config "$case/hf" --no_fsync && expect_text "gives nothing: the checkpoint has all of the model"
expect_code 2 "$SHARDWELD" merge "$case/source" "$WORK/none" --average "$WORK/whole" --supplement "$WORK/whole" "${config[@]}" && expect_text "--supplement"
[[ ! -e "$WORK/none" ]] || fail "a refused merge left something"
finish

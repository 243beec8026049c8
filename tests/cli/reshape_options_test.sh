#!/usr/bin/env bash
# reshape and the options of a merge: those that a training checkpoint has no place for are refused by name, help lists the others, and what is
# said is of the checkpoint that is written.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
megatron="$TESTS/data/megatron"
torch="$TESTS/data/torch"
qwen="$megatron/qwen2-tp2-pp2-torchdist-bf16"
merge_case "$qwen" "$WORK/qwen" 0

# refused OPTION [VALUE]: beside each form, by name, before anything is written; a model takes it.
refused() {
    for form in torch_dist legacy:tp=2 fsdp:world=2 dcp:world=2; do
        expect_code 2 "$SHARDWELD" reshape "$qwen/source" "$WORK/none" --to "$form" --hf_config "$WORK/qwen" "$@" -q
        expect_text "$1 is not for training checkpoints (--to $form)"
        expect_absent "$WORK/none"
    done
}
refused --include layers && expect_text "which hold whole models" && expect_text "--to hf"
refused --exclude layers
refused --quantize fp8-block
refused --max_shard_size 1MB
refused --names module
refused --output_format safetensors
refused --verl
refused --hf_upload_path me/model
expect_code 2 "$SHARDWELD" plan "$qwen/source" "$WORK/none" --to dcp --hf_config "$WORK/qwen" --sbatch && expect_text "--sbatch is not for training checkpoints"
expect_code 2 "$SHARDWELD" reshape "$qwen/source" "$WORK/none" --to dcp --hf_config "$WORK/qwen" --base "$WORK/qwen" -q && expect_text "this one has its own base"
expect_code 0 "$SHARDWELD" reshape "$qwen/source" "$WORK/hf" --to hf --hf_config "$WORK/qwen" --include embed --max_shard_size 1MB -q --no_fsync

# Those that are taken are heeded.
expect_code 0 "$SHARDWELD" reshape "$qwen/source" "$WORK/wide" --to fsdp:world=2 --hf_config "$WORK/qwen" --dtype fp32 -q --no_fsync --paranoid --sha256
expect_code 0 "$SHARDWELD" merge "$WORK/wide" "$WORK/wide.back" -q --no_fsync
expect_code 0 "$SHARDWELD" merge "$qwen/source" "$WORK/wide.hf" --hf_config "$WORK/qwen" --dtype fp32 -q --no_fsync && same_tensors "$WORK/wide.back" "$WORK/wide.hf"
expect_code 0 "$SHARDWELD" reshape "$qwen/source" "$WORK/short" --to legacy:tp=2 --hf_config "$WORK/qwen" --vocab_size 200 -q --no_fsync
expect_code 0 "$SHARDWELD" merge "$WORK/short" "$WORK/short.back" -q --no_fsync
expect_code 0 "$SHARDWELD" merge "$qwen/source" "$WORK/short.hf" --hf_config "$WORK/qwen" --vocab_size 200 -q --no_fsync && same_tensors "$WORK/short.back" "$WORK/short.hf"
value="$torch/fsdp2_value_w2_bf16_qwen2"
expect_code 0 "$SHARDWELD" reshape "$value/source" "$WORK/value" --to dcp:world=3 --is_value_model -q --no_fsync
expect_code 0 "$SHARDWELD" merge "$WORK/value" "$WORK/value.back" -q --no_fsync && same_as_expected "$value" "$WORK/value.back"

# Help lists what is taken, as merge's help tells it.
expect_code 0 "$SHARDWELD" reshape --help && cp "$WORK/out" "$WORK/help"
for option in to dtype resume vocab_size report lora base; do grep -q -- "--$option " "$WORK/help" || fail "help does not list $option"; done
for option in quantize include exclude names max_shard_size output_format hf_upload_path verl; do
    grep -q -- "^ *--$option " "$WORK/help" && fail "help lists $option, which reshape refuses"
done
grep -q "write the report of the run to FILE" "$WORK/help" || fail "help tells of another command's report"

# A tokenizer beside config.json is one, and the input's checksums are the input's.
cp -r "$WORK/qwen" "$WORK/full" && echo '{}' >"$WORK/full/tokenizer.json"
expect_code 0 "$SHARDWELD" reshape "$WORK/full" "$WORK/told" --to torch_dist --no_fsync
expect_text "huggingface/tokenizer.json" && ! grep -q "no tokenizer" "$WORK/err" || fail "a tokenizer is not seen: $(<"$WORK/err")"
expect_text "no checksums in the input"
expect_code 0 "$SHARDWELD" reshape "$WORK/qwen" "$WORK/untold" --to torch_dist --no_fsync && expect_text "(no tokenizer)"

# An adapter alone is no model, and has no place beside one.
for lora in split drop; do
    expect_code 5 "$SHARDWELD" reshape "$torch/fsdp2_loraonly_w2_fp32_qwen2/source" "$WORK/none" --to dcp --lora $lora -q
    expect_text "the checkpoint holds only a LoRA adapter, and a training checkpoint holds a model" && expect_text "--lora fold --base DIR"
done
expect_code 2 "$SHARDWELD" reshape "$torch/fsdp2_loraonly_w2_fp32_qwen2/source" "$WORK/none" --to dcp --lora fold -q && expect_text "--base DIR"
expect_code 5 "$SHARDWELD" reshape "$torch/fsdp2_lora_w2_fp32_qwen2/source" "$WORK/none" --to dcp -q && expect_text "no place for the LoRA adapter beside the weights"
expect_absent "$WORK/none"

# Gemma 3 with its tower: Megatron-Bridge's names of the projector, which is transposed there, and back.
for gemma in "$TESTS/data/megatron_families/gemma3vl-tp2-legacy-bf16" "$torch/plain_w1_bf16_gemma3"; do
    rm -rf "$WORK"/gemma*
    merge_case "$gemma" "$WORK/gemma" 0
    for form in torch_dist legacy:tp=2; do
        expect_code 0 "$SHARDWELD" reshape "$WORK/gemma" "$WORK/gemma.there" --to $form -q --no_fsync || continue
        expect_code 0 "$SHARDWELD" inspect "$WORK/gemma.there" --all && expect_out "multi_modal_projector.proj.weight"
        expect_code 0 "$SHARDWELD" merge "$WORK/gemma.there" "$WORK/gemma.back" -q --no_fsync && same_tensors "$WORK/gemma.back" "$WORK/gemma"
        rm -rf "$WORK"/gemma.*
    done
done
# Norms that Megatron keeps as weight - 1: rounding changes what lies outside [0.5, 2], and each tensor is named. None does in what Megatron wrote.
source="$TESTS/data/megatron_families/qwen35-tp2-legacy-bf16"
expect_code 0 "$SHARDWELD" merge "$source/source" "$WORK/norms" --hf_config "$source/hf" -q --no_fsync
for form in torch_dist legacy:tp=2; do
    expect_code 0 "$SHARDWELD" reshape "$WORK/norms" "$WORK/kept-${form%:*}" --to "$form" --no_fsync
    ! grep -q sums_rounded "$WORK/kept-${form%:*}/shardweld_report.json" || fail "sums_rounded of exact norms ($form)"
done
python3 "$TESTS/support/edit_safetensors.py" "$WORK/norms/model.safetensors" put model.layers.1.linear_attn.norm.weight 3 cd3d
for form in torch_dist legacy:tp=2 "like:$WORK/kept-legacy/release"; do
    expect_code 0 mpirun -n 2 "$SHARDWELD" reshape "$WORK/norms" "$WORK/changed-${form%%:*}" --to "$form" --no_fsync
    expect_text "layers.1.self_attention.out_norm.weight"
    expect_text "(1 of 12 values, as bfloat16)"
    grep -q '"sums_rounded"' "$WORK/changed-${form%%:*}/shardweld_report.json" || fail "no sums_rounded ($form)"
done
finish

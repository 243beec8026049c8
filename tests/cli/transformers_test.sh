#!/usr/bin/env bash
# transformers loads what is written, without missing or unexpected tensors, and computes what the expected model computes. Needs a Python with
# torch and transformers: $SHARDWELD_PYTHON, else python3. Skipped loudly without; a failure under SHARDWELD_REQUIRE=transformers.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HF_HUB_OFFLINE=1
python_with transformers torch transformers
# same_logits NAME EXPECTED HF
same_logits() {
    "$python" "$TESTS/support/compare_logits.py" "$WORK/$1" "$2" "$3" >"$WORK/out" 2>"$WORK/err" ||
        fail "$1: $(tail -1 "$WORK/err")"
}

for name in llama-tp4-legacy-bf16 qwen2-tp2-pp2-torchdist-bf16 qwen3moe-tp2-ep2-torchdist-bf16 mixtral-ep2-pp2-legacy-bf16 \
    deepseekv3-mtp-pp2-torchdist-bf16 verl-value-llama-tp2-torchdist-bf16; do
    dir="$TESTS/data/megatron/$name"
    merge_case "$dir" "$WORK/$name" 2 --max_shard_size 100KB || continue
    # Where only digests of the expected tensors are kept, merge_case has compared them; loading remains.
    expected="$dir/expected"
    [[ -e $expected/model.safetensors ]] || expected="$WORK/$name"
    same_logits "$name" "$expected" "$dir/hf"
done
for name in fsdp2_w2_mixed_deepseek fsdp2_qwen2vl_w2_bf16 fsdp2_value_w2_bf16_qwen2; do
    dir="$TESTS/data/torch/$name"
    merge_case "$dir" "$WORK/$name" 2 --max_shard_size 50KB || continue
    same_logits "$name" "$dir/expected" "$dir/source/huggingface"
done
# Masters of partitions cut anywhere, and what other frameworks gathered or left in chunks.
for name in deepspeed/zero2_w2_oddsizes deepspeed/autotp_zero1_tp2dp2 colossalai/tp2_pp2_w4_fp32 bytecheckpoint/ddp_w2_fp32_qwen3; do
    dir="$TESTS/data/$name"
    merged="$(basename "$name")"
    merge_case "$dir" "$WORK/$merged" 2 --max_shard_size 50KB || continue
    expected="$dir/expected"
    [[ -e $expected/model.safetensors ]] || expected="$WORK/$merged"
    same_logits "$merged" "$expected" "$dir/hf"
done
# The module tree of one rank, loaded without any renaming, against the hub names loaded with transformers' own.
for name in mixtral gemma3 gpt_oss; do
    dir="$TESTS/data/torch/plain_w1_bf16_$name"
    merge_case "$dir" "$WORK/$name" 2 || continue
    same_logits "$name" "$dir/source/model_world_size_1_rank_0.pt" "$dir/source/huggingface"
done
# A tied head is not written and not missed.
name=fsdp2_w4_bf16_qwen2_tied
merge_case "$TESTS/data/torch/$name" "$WORK/$name" 2 && same_logits "$name" "$WORK/$name" "$TESTS/data/torch/$name/source/huggingface"
finish

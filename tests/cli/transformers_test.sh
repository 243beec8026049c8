#!/usr/bin/env bash
# transformers loads what is written, without missing or unexpected tensors, and computes what the expected model computes. Needs a Python with
# torch and transformers: $SHARDWELD_PYTHON, else python3. Skipped loudly without; a failure under SHARDWELD_REQUIRE=transformers.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python="${SHARDWELD_PYTHON:-python3}"
export HF_HUB_OFFLINE=1

if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
    echo "SKIPPED: $python has no torch and transformers"
    [[ ",${SHARDWELD_REQUIRE:-}," != *,transformers,* ]] || fail "transformers is required"
    finish
    exit 77
fi
for name in llama-tp4-legacy-bf16 qwen2-tp2-pp2-torchdist-bf16 qwen3moe-tp2-ep2-torchdist-bf16 mixtral-ep2-pp2-legacy-bf16 \
    deepseekv3-pp2-torchdist-bf16 verl-value-llama-tp2-torchdist-bf16; do
    dir="$TESTS/data/megatron/$name"
    merge_case "$dir" "$WORK/$name" 2 --max_shard_size 100KB || continue
    checks=$((checks + 1))
    "$python" "$TESTS/support/compare_logits.py" "$WORK/$name" "$dir/expected" "$dir/hf" >"$WORK/out" 2>"$WORK/err" ||
        fail "$name: $(tail -1 "$WORK/err")"
done
finish

#!/usr/bin/env bash
# What reshape writes for Megatron, loaded by megatron-core itself into its own model, at several parallel sizes: logits are those of transformers'
# model. Needs a Python with torch, transformers and megatron-core 0.16 or later: $SHARDWELD_PYTHON, else python3. Skipped loudly without; a failure
# under SHARDWELD_REQUIRE=megatron.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HF_HUB_OFFLINE=1
python_with megatron torch transformers megatron.core

# same_logits MODEL FORM [sizes]: torch_dist is written once for all sizes
same_logits() {
    local out="$WORK/$1.$2"
    [[ -e "$out" ]] || expect_code 0 "$SHARDWELD" reshape "$WORK/$1" "$out" --to "$2" -q --no_fsync || return
    "$python" "$TESTS/support/load_in_megatron.py" "$WORK/$1" "$out" "${@:3}" >"$WORK/out" 2>"$WORK/err" ||
        fail "$1 as $2 with ${*:3}: $(grep -v '^ *File' "$WORK/err" | tail -5)"
}

for case in llama-tp4-legacy-bf16 qwen2-tp2-pp2-torchdist-bf16 qwen3moe-tp2-ep2-torchdist-bf16; do
    merge_case "$TESTS/data/megatron/$case" "$WORK/${case%%-*}" 0 --report none
done
same_logits llama torch_dist
same_logits llama torch_dist tp=4
same_logits llama torch_dist:spec=local tp=2 pp=2 spec=local
same_logits qwen2 torch_dist tp=2 pp=2
same_logits qwen3moe torch_dist
same_logits qwen3moe torch_dist tp=2 ep=2
same_logits llama legacy:tp=2,pp=2 tp=2 pp=2
same_logits qwen2 legacy:tp=2,pp=2,spec=local tp=2 pp=2 spec=local
same_logits qwen3moe legacy:tp=2,ep=2,etp=1 tp=2 ep=2
# Older ones find no common state in the shards.
if "$python" -c 'import sys; from importlib.metadata import version; sys.exit(tuple(map(int, version("megatron-core").split(".")[:2])) < (0, 19))'; then
    same_logits llama torch_dist:era=019
fi
finish

#!/usr/bin/env bash
# check from the outside: what merges write passes for every program that would load it, and what would not load does not.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# passes DIR TARGET..
passes() {
    local dir="$1" target
    shift
    for target in "$@"; do
        expect_code 0 "$SHARDWELD" check "$dir" --target "$target" || cat "$WORK/out"
    done
}

# answers CODE RULE DIR TARGET: an error or a warning of the rule.
answers() {
    expect_code "$1" "$SHARDWELD" check "$3" --target "$4"
    grep -q "^[a-z]* *$2 " "$WORK/out" || fail "no rule $2 for $4: $(<"$WORK/out")"
}

# with_words DIR: a tokenizer without which servers refuse a model.
with_words() {
    [[ -e "$1/tokenizer.json" ]] || echo '{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}' >"$1/tokenizer.json"
}

# Every family's names and shapes.
python3 "$TESTS/support/check_tables.py" "$SHARDWELD" "$TESTS/data/hf_names" "$WORK/tables" >"$WORK/tables.out" || fail "$(head -20 "$WORK/tables.out")"
tail -1 "$WORK/tables.out"

# A head beside the embedding that it is tied to: servers take the embedding, whatever is in the head.
tied="$WORK/tables/qwen2.tied"
edit() { python3 "$TESTS/support/edit_safetensors.py" "$tied/model.safetensors" "$@"; }
edit copy model.embed_tokens.weight lm_head.weight
passes "$tied" transformers vllm sglang tgi
edit put lm_head.weight 7 3f80
passes "$tied" transformers
for target in vllm sglang tgi; do
    answers 14 head "$tied" "$target"
done

# compressed-tensors' list of what stays as it is has the names of transformers' modules; those of the Hub alone leave scales random, or end in an error.
for family in gemma3.base mistral3.ministral3 qwen2_5_vl; do
    rm -rf "$WORK/seeing"
    expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$WORK/tables/$family" --target_dir "$WORK/seeing" --quantize fp8-channel -q --no_fsync
    passes "$WORK/seeing" transformers
    python3 - "$WORK/seeing/config.json" <<'EOF_PYTHON'
import json, sys
config = json.load(open(sys.argv[1]))
listed = config["quantization_config"]["ignore"]
listed[:] = [name for name in listed if not name.startswith(("model.vision_tower", "model.visual"))]
json.dump(config, open(sys.argv[1], "w"))
EOF_PYTHON
    answers 14 ignored "$WORK/seeing" transformers
done

# A family without a recipe: a server may look for names of its own.
cp -r "$WORK/tables/qwen3.tied" "$WORK/nobody"
sed -i 's/"qwen3"/"nobody"/; s/"Qwen3ForCausalLM"/"NobodyForCausalLM"/' "$WORK/nobody/config.json"
echo '{"auto_map": {"AutoConfig": "own.Config"}}' >"$WORK/code.json"
python3 -c 'import json, sys; path = sys.argv[1]; config = {**json.load(open(path)), **json.load(open(sys.argv[2]))}; json.dump(config, open(path, "w"))' \
    "$WORK/nobody/config.json" "$WORK/code.json"
touch "$WORK/nobody/own.py"
for target in vllm sglang; do
    expect_code 0 "$SHARDWELD" check "$WORK/nobody" --target "$target" --json && grep -q '"verdict": "not_known"' "$WORK/out" || fail "an OK for names that nobody knows: $(<"$WORK/out")"
done

# Checkpoints of every framework. Some need options to be merged: tests of their own give them.
models=0
for dir in "$TESTS"/data/{megatron,megatron_more,megatron_families,torch,deepspeed,colossalai,bytecheckpoint}/*/; do
    [[ -e "$dir/source" ]] || continue
    rm -rf "$WORK/merged"
    (merge_case "${dir%/}" "$WORK/merged" 0) >"$WORK/merging" 2>&1
    [[ -e "$WORK/merged/config.json" ]] || continue  # also an adapter alone
    models=$((models + 1))
    with_words "$WORK/merged"
    case "$dir" in
    */fsdp2_w2_float8/) answers 14 quantised "$WORK/merged" vllm ;;  # codes without scales or a quantization_config
    */moe_zero1_w4/) answers 14 model-type "$WORK/merged" vllm ;;    # a model type that no loader knows
    */gemma3-mbridge-legacy-made/) answers 14 parts "$WORK/merged" vllm ;;  # its config.json promises the tower a head
    */megatron_families/*) passes "$WORK/merged" transformers vllm ;;
    *) passes "$WORK/merged" transformers vllm sglang tgi ;;
    esac
done
((models > 150)) || fail "only $models checkpoints were merged"

# Every encoding.
for case in llama128/{fp8-block,fp8-channel,fp8-block-ct,w8a16,w8a16-channel,w4a16,nvfp4a16,mxfp4} qwen3moe128/{fp8-block,w4a16} gptoss/gptoss-mxfp4; do
    rm -rf "$WORK/merged"
    expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$TESTS/data/quant/${case%/*}/input" --target_dir "$WORK/merged" \
        --quantize "${case#*/}" -q --no_fsync
    with_words "$WORK/merged"
    passes "$WORK/merged" transformers vllm sglang
done
finish

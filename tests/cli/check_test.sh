#!/usr/bin/env bash
# check from the outside: what merges write passes for every program that would load it, and what would not load does not.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Answers are asked for at the end, all in a few calls: no directory changes once something is expected of it.
expects() { # VERDICT RULE DIR TARGET...
    local target
    for target in "${@:4}"; do
        printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$target" >>"$WORK/expected"
    done
}
passes() { # DIR TARGET...
    expects ok - "$@"
}
refuses() { # RULE DIR TARGET...
    expects refused "$@"
}

# with_words DIR: a tokenizer without which servers refuse a model.
with_words() {
    [[ -e "$1/tokenizer.json" ]] || echo '{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}' >"$1/tokenizer.json"
}

# Every family's names and shapes.
python3 "$TESTS/support/write_tables.py" "$TESTS/data/hf_names" "$WORK/tables" || fail "tables"
for dir in "$WORK"/tables/*/; do
    passes "${dir%/}" transformers vllm  # the others ask the same of names
done

# A head beside the embedding that it is tied to: servers take the embedding, whatever is in the head.
edit() { python3 "$TESTS/support/edit_safetensors.py" "$tied/model.safetensors" "$@"; }
for tied in "$WORK"/{same,other}_head; do
    cp -r "$WORK/tables/qwen2.tied" "$tied"
    edit copy model.embed_tokens.weight lm_head.weight
done
edit put lm_head.weight 7 3f80
passes "$WORK/same_head" transformers vllm sglang tgi
passes "$tied" transformers
refuses head "$tied" vllm sglang tgi

# compressed-tensors' list of what stays as it is has the names of transformers' modules; those of the Hub alone leave scales random, or end in an error.
for family in gemma3.base mistral3.ministral3 qwen2_5_vl; do
    seeing="$WORK/seeing.$family"
    expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$WORK/tables/$family" --target_dir "$seeing" --quantize fp8-channel -q --no_fsync
    passes "$seeing" transformers
    cp -r "$seeing" "$seeing.unlisted"
    python3 - "$seeing.unlisted/config.json" <<'EOF_PYTHON'
import json, sys
config = json.load(open(sys.argv[1]))
listed = config["quantization_config"]["ignore"]
listed[:] = [name for name in listed if not name.startswith(("model.vision_tower", "model.visual"))]
json.dump(config, open(sys.argv[1], "w"))
EOF_PYTHON
    refuses ignored "$seeing.unlisted" transformers
done

# A family without a recipe: a server may look for names of its own.
cp -r "$WORK/tables/qwen3.tied" "$WORK/nobody"
sed -i 's/"qwen3"/"nobody"/; s/"Qwen3ForCausalLM"/"NobodyForCausalLM"/' "$WORK/nobody/config.json"
echo '{"auto_map": {"AutoConfig": "own.Config"}}' >"$WORK/code.json"
python3 -c 'import json, sys; path = sys.argv[1]; config = {**json.load(open(path)), **json.load(open(sys.argv[2]))}; json.dump(config, open(path, "w"))' \
    "$WORK/nobody/config.json" "$WORK/code.json"
touch "$WORK/nobody/own.py"
expects not_known - "$WORK/nobody" vllm sglang

# Checkpoints of every framework. Some need options to be merged: tests of their own give them.
models=0
for dir in "$TESTS"/data/{megatron,megatron_more,megatron_families,torch,deepspeed,colossalai,bytecheckpoint}/*/; do
    [[ -e "$dir/source" ]] || continue
    models=$((models + 1)) merged="$WORK/merged/$models-$(basename "$dir")"
    (merge_case "${dir%/}" "$merged" 0) >"$WORK/merging" 2>&1
    [[ -e "$merged/config.json" ]] || { models=$((models - 1)); continue; }  # also an adapter alone
    with_words "$merged"
    case "$dir" in
    */fsdp2_w2_float8/) refuses quantised "$merged" vllm ;;  # codes without scales or a quantization_config
    */moe_zero1_w4/) refuses model-type "$merged" vllm ;;    # a model type that no loader knows
    */gemma3-mbridge-legacy-made/) refuses parts "$merged" vllm ;;  # its config.json promises the tower a head
    */megatron_families/*) passes "$merged" transformers vllm ;;
    *) passes "$merged" transformers vllm sglang tgi ;;
    esac
done
((models > 150)) || fail "only $models checkpoints were merged"

# Every encoding.
for case in llama128/{fp8-block,fp8-channel,fp8-block-ct,w8a16,w8a16-channel,w4a16,nvfp4a16,mxfp4} qwen3moe128/{fp8-block,w4a16} gptoss/gptoss-mxfp4; do
    merged="$WORK/merged/${case/\//-}"
    expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$TESTS/data/quant/${case%/*}/input" --target_dir "$merged" \
        --quantize "${case#*/}" -q --no_fsync
    with_words "$merged"
    passes "$merged" transformers vllm sglang
done

python3 "$TESTS/support/check_answers.py" "$SHARDWELD" "$WORK/expected" || fail "answers"

# A call about one directory tells by its code; of several the worst counts, and what cannot be read is told.
expect_code 0 "$SHARDWELD" check "$WORK/same_head" --target vllm && expect_out "OK: $WORK/same_head should load in vLLM"
expect_code 14 "$SHARDWELD" check "$tied" --target vllm && grep -q '^error *head ' "$WORK/out" || fail "no rule head: $(<"$WORK/out")"
expect_code 14 "$SHARDWELD" check "$WORK/none" "$WORK/same_head" "$tied" --target transformers --target tgi && expect_text "$WORK/none"
[[ "$(grep -c '^OK: ' "$WORK/out") $(grep -c '^NOT OK: ' "$WORK/out")" == "3 1" ]] || fail "verdicts: $(<"$WORK/out")"
expect_code 3 "$SHARDWELD" check "$WORK/same_head" "$WORK/none"
expect_code 3 "$SHARDWELD" check "$WORK/none"
finish

#!/usr/bin/env bash
# What config.json promises and nobody stored, of families without a recipe: lost tensors, heads, optional weights.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source="$TESTS/data/torch/plain_w2_fp32_llama"
merge_case "$source" "$WORK/whole" 0
weights="$(ls "$WORK"/whole/*.safetensors)"

# unknown CONFIG-EDIT [edit_safetensors arguments]: a copy of the model whose family has no recipe, changed; merged to $WORK/result.
unknown() {
    rm -rf "$WORK/model" "$WORK/result"
    cp -r "$WORK/whole" "$WORK/model"
    python3 - "$WORK/model/config.json" "$1" <<'P' || fail "cannot edit the config: $1"
import json, sys
config = json.load(open(sys.argv[1]))
config.update(model_type="nobody_knows", architectures=["NobodyForCausalLM"], tie_word_embeddings=False)
exec(sys.argv[2])
json.dump(config, open(sys.argv[1], "w"))
P
    shift
    (($# == 0)) || python3 "$TESTS/support/edit_safetensors.py" "$WORK/model/$(basename "$weights")" "$@" || fail "cannot edit: $*"
    expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$WORK/model" --target_dir "$WORK/result" --no_fsync
}

not_told() {
    ! grep -qE "was it lost|of its head|but no tensor that belongs" "$WORK/err" || fail "a false alarm: $(grep -m1 -E 'lost|head|belongs' "$WORK/err")"
}

unknown "pass"
not_told
unknown "pass" drop model.layers.1.self_attn.o_proj.weight
expect_text "nothing is stored for model.layers.1.self_attn.o_proj, though model.layers.0.self_attn has it"
unknown "pass" drop lm_head.weight
expect_text "config.json names the class NobodyForCausalLM, but no tensor of its head is stored"
unknown "config['tie_word_embeddings'] = True" drop lm_head.weight
not_told
unknown "config['architectures'] = ['NobodyForSequenceClassification']"
expect_text "NobodyForSequenceClassification, but no tensor of its head is stored"
unknown "config['architectures'] = ['NobodyForSequenceClassification']" rename '^lm_head' score
not_told
unknown "config['attention_bias'] = True"
expect_text "config.json says attention_bias, but no tensor that belongs to it is stored"
# A text for a list: loaders would take its letters for names, or refuse it.
unknown "config['architectures'] = 'NobodyForCausalLM'"
expect_text "model: NobodyForCausalLM"
tr -d '[:space:]' <"$WORK/result/config.json" | grep -qF '"architectures":["NobodyForCausalLM"]' || fail "architectures is no list"
finish

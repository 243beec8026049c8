#!/usr/bin/env bash
# Names in the output of checkpoints that hold a module tree: the hub's, as save_pretrained writes them, or the stored ones; what is
# said of tensors that config.json does not know, misses or ties; value heads and the config that fits them, Megatron's too.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data="$WORK/torch"
cp -r "$TESTS/data/torch" "$data"
with_tokenizer "$data"

# variant NAME FIXTURE FIELD=JSON...: a copy of a fixture whose config.json says otherwise; FIELD= removes the field.
variant() {
    local name="$1" fixture="$2"
    shift 2
    mkdir -p "$WORK/$name" && cp -r "$data/$fixture/source" "$WORK/$name/"
    python3 - "$WORK/$name/source/huggingface/config.json" "$@" <<'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    config = json.load(file)
for edit in sys.argv[2:]:
    field, _, value = edit.partition("=")
    config.pop(field, None)
    if value:
        config[field] = json.loads(value)
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(config, file, indent=2)
PYTHON
}

# merge CODE NAME OUT [options]: a variant, or a fixture
merge() {
    local code="$1" dir="$WORK/$2" out="$WORK/$3"
    [[ -d "$dir/source" ]] || dir="$data/$2"
    shift 3
    expect_code "$code" "$SHARDWELD" merge --local_dir "$dir/source" --target_dir "$out" "$@"
}

# config_says OUT PYTHON-EXPRESSION over `config`
config_says() {
    python3 -c 'import json, sys; config = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$WORK/$1/config.json" "$2" ||
        fail "$1/config.json: not $2"
}

# names_in OUT: the names of its tensors
names_in() {
    python3 -c 'import json, struct, sys
f = open(sys.argv[1], "rb"); n = struct.unpack("<Q", f.read(8))[0]
print("\n".join(sorted(k for k in json.loads(f.read(n)) if k != "__metadata__")))' "$WORK/$1/model.safetensors"
}

holds() {
    names_in "$1" >"$WORK/names" && grep -qxF -- "$2" "$WORK/names" || fail "$1 has no $2"
}

lacks() {
    names_in "$1" >"$WORK/names" && ! grep -qxF -- "$2" "$WORK/names" || fail "$1 has $2"
}

hub_names() {
    # Packed experts unpacked, prefixes of vision-language models, routers renamed: as save_pretrained writes them. --strict: no
    # warning on the way.
    local name
    for name in plain_w1_bf16_mixtral plain_w1_bf16_phi3 plain_w1_bf16_gemma3 plain_w1_bf16_qwen3_next plain_w1_bf16_gpt_oss \
        plain_w1_bf16_glm4_moe fsdp2_w2_mixed_deepseek fsdp2_qwen2vl_w2_bf16 fsdp2_w4_bf16_qwen2_tied fsdp2_value_w2_bf16_qwen2; do
        merge 0 "$name" "$name" --strict && same_as_expected "$data/$name" "$WORK/$name"
    done
    holds plain_w1_bf16_mixtral model.layers.1.block_sparse_moe.experts.2.w3.weight
    holds plain_w1_bf16_gemma3 language_model.model.layers.1.self_attn.q_norm.weight
    lacks plain_w1_bf16_gemma3 language_model.lm_head.weight
}

module_names() {
    merge 0 plain_w1_bf16_mixtral module --names module
    holds module model.layers.1.mlp.experts.gate_up_proj
    merge 0 fsdp2_qwen2vl_w2_bf16 module_vl --names module
    holds module_vl model.language_model.norm.weight
    variant unknown plain_w1_bf16_mixtral 'model_type="nobody_knows"' 'architectures=["NobodyForCausalLM"]'
    merge 14 unknown unknown_strict --strict
    expect_text "family_unknown"
    merge 0 unknown unknown_meant --strict --names module
    merge 0 unknown unknown_out
    expect_text "nobody_knows"
    expect_text "tensors keep the names and forms they are stored in"
    cmp -s "$WORK/unknown_out/model.safetensors" "$WORK/module/model.safetensors" || fail "an unknown family is not written as stored"
    # Without model_type the experts would stay packed.
    variant untyped plain_w1_bf16_mixtral model_type=
    merge 6 untyped untyped_out
    expect_text 'architectures names MixtralForCausalLM'
    expect_text 'write the model_type of the model that was trained, as "mixtral"'
    variant untyped plain_w1_bf16_mixtral model_type= architectures=
    merge 6 untyped untyped_out
    expect_text "there is no model_type"
    merge 0 untyped untyped_meant --names module
}

# Families without a recipe: transformers saves some under other names, and one name of a tensor that has two.
saved_otherwise() {
    local class='architectures=["AXK1ForCausalLM"]'
    variant renamed plain_w1_bf16_mixtral 'model_type="axk1"' "$class"
    merge 5 renamed renamed_out
    expect_text "AXK1 (model_type axk1)"
    expect_text "model.layers.1.mlp.experts.gate_up_proj"
    expect_absent "$WORK/renamed_out"
    merge 0 renamed renamed_meant --names module --strict
    cmp -s "$WORK/renamed_meant/model.safetensors" "$WORK/module/model.safetensors" || fail "--names module changes what is stored"
    expect_code 5 "$SHARDWELD" merge "$WORK/renamed_meant" "$WORK/converted" --dtype float32
    # The names that transformers saves, whoever wrote them.
    cp -r "$WORK/plain_w1_bf16_mixtral" "$WORK/saved" && sed -i 's/"mixtral"/"axk1"/; s/MixtralFor/AXK1For/' "$WORK/saved/config.json"
    expect_code 0 "$SHARDWELD" merge "$WORK/saved" "$WORK/converted" --dtype float32
    expect_text "which has no recipe: tensors keep the names"
    # The type is that of the class where config.json has none that is known, or of a part inside.
    variant classed plain_w1_bf16_mixtral 'model_type="nobody_knows"' "$class"
    merge 5 classed classed_out
    variant untyped_class plain_w1_bf16_mixtral model_type= "$class"
    merge 5 untyped_class untyped_class_out
    variant inside plain_w1_bf16_mixtral 'model_type="jais2"' 'architectures=["Jais2ForCausalLM"]' 'text_config={"model_type": "axk1"}'
    merge 5 inside inside_out
    merge 14 unknown unknown_warned --strict
    expect_text "names_unchecked"
    variant twice fsdp2_w4_bf16_qwen2_tied 'model_type="diffllama"' 'architectures=["DiffLlamaForCausalLM"]'
    merge 0 twice twice_out
    lacks twice_out lm_head.weight
    holds twice_out model.embed_tokens.weight
    variant apart_too plain_w1_bf16_phi3 'model_type="diffllama"' 'architectures=["DiffLlamaForCausalLM"]' 'tie_word_embeddings=true'
    merge 14 apart_too apart_too_strict --strict
    expect_text "tied_differs"
    merge 0 apart_too apart_too_out
    holds apart_too_out lm_head.weight
    config_says apart_too_out 'config["tie_word_embeddings"] is False'
}

extra_and_missing() {
    # Buffers that the trainer's model has.
    merge 0 fsdp2_w2_compiled_buffers extra_out
    expect_text "2 tensors are no part of the llama model that config.json describes: model.layers.0.self_attn.calls"
    merge 14 fsdp2_w2_compiled_buffers extra_strict --strict
    expect_text "extra_tensors"
    expect_absent "$WORK/extra_strict"
    variant normless plain_w1_bf16_glm4_moe 'use_qk_norm=false'
    merge 6 normless normless_out
    expect_text "is stored, but config.json (model_type, use_qk_norm) describes a model without it"
    variant unshared fsdp2_w2_mixed_deepseek 'n_shared_experts=0'
    merge 6 unshared unshared_out
    expect_text "config.json (first_k_dense_replace"
    expect_text "n_shared_experts"
    variant missing plain_w1_bf16_mixtral 'num_hidden_layers=3'
    merge 6 missing missing_out
    expect_text "this config.json is another model's: num_hidden_layers 3, the checkpoint has 2"
    expect_absent "$WORK/missing_out"
    variant fewer plain_w1_bf16_mixtral 'num_hidden_layers=1'
    merge 6 fewer fewer_out
    expect_text "this config.json is another model's: num_hidden_layers 1, the checkpoint has 2"
}

tied_heads() {
    lacks fsdp2_w4_bf16_qwen2_tied lm_head.weight
    # One storage for both.
    variant apart fsdp2_w4_bf16_qwen2_tied 'tie_word_embeddings=false'
    merge 6 apart apart_out
    expect_text "lm_head.weight and model.embed_tokens.weight are one storage in the checkpoint"
    merge 0 apart apart_out --tie-word-embedding
    lacks apart_out lm_head.weight
    variant untied plain_w1_bf16_phi3 'tie_word_embeddings=true'
    merge 0 untied untied_out
    expect_text "lm_head.weight differs from model.embed_tokens.weight"
    holds untied_out lm_head.weight
    config_says untied_out 'config["tie_word_embeddings"] is False'
    merge 14 untied untied_strict --strict
    expect_text "tied_differs"
    expect_absent "$WORK/untied_strict"
}

value_heads() {
    config_says fsdp2_value_w2_bf16_qwen2 'config == json.load(open("'"$data"'/fsdp2_value_w2_bf16_qwen2/expected/config.json"))'
    # Some releases of verl leave the config of the base model beside a value model.
    variant based fsdp2_value_w2_bf16_qwen2 'architectures=["Qwen2ForCausalLM"]' id2label= label2id=
    merge 0 based based_out --strict
    expect_text "model: Qwen2ForTokenClassification, "
    same_as_expected "$data/fsdp2_value_w2_bf16_qwen2" "$WORK/based_out"
    config_says based_out 'config["architectures"] == ["Qwen2ForTokenClassification"]'
    config_says based_out 'config["id2label"] == {"0": "LABEL_0"} and config["label2id"] == {"LABEL_0": 0}'
    # Beside the language model it was made of, the heads are meant to differ: neither is missed.
    cp -r "$WORK/based_out" "$WORK/causal"
    for change in "copy score.weight lm_head.weight" "drop score.weight"; do
        python3 "$TESTS/support/edit_safetensors.py" "$WORK/causal/model.safetensors" $change || fail "cannot edit the head"
    done
    merge 0 based beside_causal --base "$WORK/causal" --report "$WORK/value.json"
    python3 - "$WORK/value.json" <<'P' || fail "a value model misses a head of its base"
import json, sys
report = json.load(open(sys.argv[1]))
assert (report["base"]["missing"], report["base"]["extra"]) == ([], []), report["base"]
assert [w["code"] for w in report["warnings"]] == ["equals_base"], report["warnings"]
P
    merge 0 based flagged_out --is-value-model --strict
    config_says flagged_out 'config["architectures"] == ["Qwen2ForTokenClassification"]'
    variant classless fsdp2_value_w2_bf16_qwen2 architectures=
    merge 0 classless classless_out --strict
    same_as_expected "$data/fsdp2_value_w2_bf16_qwen2" "$WORK/classless_out"
    merge 6 plain_w1_bf16_phi3 no_head --is-value-model
    expect_text "score.weight"
    expect_absent "$WORK/no_head"
}

# A critic beside the config of the base model: told by its head's one row, and the same bytes as with the flag.
megatron_value_heads() {
    local case_dir="$TESTS/data/$1" name kind
    name="$(basename "$case_dir")"
    mkdir -p "$WORK/$name" && cp -r "$case_dir/source" "$WORK/$name/"
    local config
    config="$(find "$WORK/$name/source" -name config.json)"
    if [[ -z "$config" ]]; then
        cp -r "$case_dir/hf" "$WORK/$name/source/huggingface" && config="$WORK/$name/source/huggingface/config.json"
    fi
    with_tokenizer "$WORK/$name/source"
    sed -i -E 's/For(TokenClassification|CausalLM)/ForCausalLM/' "$config"
    python3 - "$config" <<'PYTHON'
import json
import sys

config = json.load(open(sys.argv[1], encoding="utf-8"))
for field in ("id2label", "label2id", "num_labels"):
    config.pop(field, None)
json.dump(config, open(sys.argv[1], "w", encoding="utf-8"))
PYTHON
    for kind in found flagged; do
        local flag=()
        [[ "$kind" == found ]] || flag=(--is-value-model)
        expect_code 0 "$SHARDWELD" merge --local_dir "$WORK/$name/source" --hf_config "$config" --target_dir "$WORK/$name/$kind" --no_card --strict "${flag[@]}"
        same_as_expected "$case_dir" "$WORK/$name/$kind"
        [[ "$kind" == flagged ]] || expect_text "ForTokenClassification, "
    done
    [[ "$(sum_of "$WORK/$name/found")" == "$(sum_of "$WORK/$name/flagged")" ]] || fail "$name: other files than with --is-value-model"
    config_says "$name/found" '"TokenClassification" in config["architectures"][0] and config["id2label"] == {"0": "LABEL_0"}'
}

hub_names
module_names
saved_otherwise
extra_and_missing
tied_heads
value_heads
for name in megatron/verl-value-llama-tp2-torchdist-bf16 megatron_more/value-qwen3-tp2-legacy; do
    megatron_value_heads "$name"
done
finish

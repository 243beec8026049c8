#!/usr/bin/env bash
# Plain DCP directories with Megatron's names as fsdp_dtensor and Megatron-Bridge have them, written here from finished models: layers and
# experts one by one, gate and up apart, uneven chunks, wrappers, vision-language models; half an adapter.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
moe="$TESTS/data/megatron/qwen3moe-tp2-ep2-torchdist-bf16"
vision="$TESTS/data/torch/fsdp2_qwen2vl_w2_bf16"

# write NAME MODEL-DIR CONFIG-DIR [OPTION=VALUE..]: a case directory
write() {
    mkdir -p "$WORK/$1" && cp -r "$3" "$WORK/$1/hf"
    python3 "$TESTS/support/write_megatron.py" "$2" "$3/config.json" "$WORK/$1/source" "${@:4}" || fail "cannot write $1"
}

same_model() {
    merge_case "$WORK/$1" "$WORK/$1/out" "$2" && same_as_expected "$3" "$WORK/$1/out"
}

for experts in te sequential sequential_experts; do
    write "$experts" "$moe/expected" "$moe/hf" experts="$experts"
    same_model "$experts" 0 "$moe"
done
write wrapped "$moe/expected" "$moe/hf" wrapped=to_wrap. in_front=model.module.module.
same_model wrapped 3 "$moe"

write adapter "$moe/expected" "$moe/hf" wrapped=to_wrap. adapter=yes
expect_code 6 "$SHARDWELD" merge --local_dir "$WORK/adapter/source" --hf_config "$WORK/adapter/hf" --target_dir "$WORK/adapter/out"
expect_text "decoder.layers.0.self_attention.linear_qkv.adapter.linear_in.weight is stored, but the other factor of its pair is not"
expect_absent "$WORK/adapter/out"

# The vision tower is stored as the hub has it; a model without one does not take it.
write vision "$vision/expected" "$vision/source/huggingface" in_front= language=language_model.
same_model vision 3 "$vision"
python3 - "$WORK/vision/hf/config.json" <<'PYTHON'
import json
import sys

config = json.load(open(sys.argv[1], encoding="utf-8"))
config.update(config.pop("text_config"), model_type="qwen2", architectures=["Qwen2ForCausalLM"])
json.dump(config, open(sys.argv[1], "w", encoding="utf-8"))
PYTHON
expect_code 6 "$SHARDWELD" merge --local_dir "$WORK/vision/source" --hf_config "$WORK/vision/hf" --target_dir "$WORK/vision/text"
expect_text "31 stored tensors that no line of dialect megatron_core matches for a qwen2 model: visual.blocks.0.attn.proj.bias [16]"
expect_absent "$WORK/vision/text"

# Towers of Megatron's own layers: rows of query, key and value head by head, mergers behind inner layers too.
tower() {
    python3 "$TESTS/support/random_model.py" "$TESTS/data/hf_names/$1.json" "$WORK/$1/expected" || fail "cannot make $1"
    mkdir "$WORK/$1.hf" && mv "$WORK/$1/expected/config.json" "$WORK/$1.hf/"
    write "$1" "$WORK/$1/expected" "$WORK/$1.hf" in_front= language=language_model. hub="$2" tower="$3"
    same_model "$1" 2 "$WORK/$1"
}
tower qwen3_vl model.language_model. qwen
tower qwen2_5_vl model. qwen2_5
tower exaone4_5 model.language_model. exaone4_5
tower internvl_chat language_model.model. internvl
tower qwen3_omni_moe thinker.model. omni
finish

#!/usr/bin/env bash
# `shardweld recipes`: the list, the texts, and fixtures that are really there.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect_code 0 "$SHARDWELD" recipes
for name in llama qwen2 qwen3 qwen2_moe qwen3_moe mixtral deepseek_v3 gemma megatron_core; do
    checks=$((checks + 1))
    grep -qw "$name" "$WORK/out" || fail "recipes does not list $name"
done
for name in llama qwen2 qwen3 qwen2_moe qwen3_moe mixtral deepseek_v3 gemma gemma3 glm4_moe phi3 qwen2_vl; do
    expect_code 0 "$SHARDWELD" recipes "$name"
    fixtures="$(sed -n 's/^verified by //p' "$WORK/out" | tr -d ' ' | tr ',' ' ')"
    checks=$((checks + 1))
    [[ -n "$fixtures" ]] || fail "$name names no fixture that verifies it"
    for fixture in $fixtures; do
        checks=$((checks + 1))
        [[ -d "$TESTS/data/torch/$fixture" || -d "$TESTS/data/megatron/$fixture" || -d "$TESTS/data/megatron_more/$fixture" ]] || fail "$name is verified by $fixture, which is not there"
    done
done
expect_code 2 "$SHARDWELD" recipes no_such_family && expect_text "no_such_family"

# --recipe replaces a built-in one: the printed text is accepted and gives the same bytes, a changed one another name.
case_dir="$TESTS/data/megatron/llama-tp4-legacy-bf16"
"$SHARDWELD" recipes llama >"$WORK/llama.recipe"
merge_case "$case_dir" "$WORK/same" 2 --recipe "$WORK/llama.recipe" && same_as_expected "$case_dir" "$WORK/same"
sed 's/^hub model.norm.weight/hub model.renamed.weight/' "$WORK/llama.recipe" >"$WORK/renamed.recipe"
merge_case "$case_dir" "$WORK/renamed" 2 --recipe "$WORK/renamed.recipe"
checks=$((checks + 1))
grep -q '"model.renamed.weight"' "$WORK/renamed/model.safetensors" || fail "--recipe is not used"
sed '/^hub model.norm.weight/d' "$WORK/llama.recipe" >"$WORK/lossy.recipe"
expect_code 6 "$SHARDWELD" merge --local_dir "$case_dir/source" --hf_config "$case_dir/hf" --target_dir "$WORK/lossy" \
    --recipe "$WORK/lossy.recipe" && expect_text "decoder.final_layernorm.weight"
expect_absent "$WORK/lossy"
finish

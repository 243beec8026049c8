#!/usr/bin/env bash
# LoRA adapters in checkpoints of PEFT models: split off, folded, dropped, at several numbers of ranks and with both strategies. What is
# expected was written by peft (save_pretrained, merge_and_unload) under FSDP2.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"
torch="$TESTS/data/torch"
full="$torch/fsdp2_lora_w2_fp32_qwen2"
only="$torch/fsdp2_loraonly_w2_fp32_qwen2"

# config_says FILE PYTHON-EXPRESSION over the file's object c
config_says() {
    python3 -c 'import json, sys; c = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$1" "$2" || fail "$1: not $2"
}

# lora CODE RANKS ARGUMENTS...: merges with messages kept; RANKS 0 means without mpirun.
lora() {
    local code="$1" ranks="$2" launcher=()
    shift 2
    ((ranks == 0)) || launcher=(mpirun -n "$ranks")
    expect_code "$code" "${launcher[@]}" "$SHARDWELD" merge "$@"
}

# copy_of DIR NAME: a checkpoint to be changed.
copy_of() {
    rm -rf "${WORK:?}/$2"
    cp -r "$1/source" "$WORK/$2"
    chmod -R u+w "$WORK/$2"
    echo "$WORK/$2"
}

# many_ways SOURCE [OPTIONS]: merges without mpirun and at other numbers of ranks, all to the same bytes; the last one stays in $WORK/way.
many_ways() {
    local first="" way
    ways_of 2 3 5 8
    for way in "0 direct" "${ways[@]}"; do
        rm -rf "$WORK/way"
        lora 0 "${way% *}" --local_dir "$1" --target_dir "$WORK/way" --strategy "${way#* }" "${@:2}" || continue
        first="${first:-$(sum_of "$WORK/way")}"
        [[ "$(sum_of "$WORK/way")" == "$first" ]] || fail "other bytes with $way: $*"
    done
}

# Split: the base as it was before the training, the adapter as peft saves it, and a plain word about it.
many_ways "$full/source"
same_tensors "$WORK/way" "$full/expected/base"
same_tensors "$WORK/way/lora_adapter" "$full/expected/lora_adapter"
expect_text "WITHOUT the LoRA adapter"
expect_text "--lora fold"
config_says "$WORK/way/lora_adapter/adapter_config.json" \
    'c["peft_type"] == "LORA" and c["r"] == 4 and c["lora_alpha"] == 10 and c["inference_mode"] and "runtime_config" not in c'
config_says "$WORK/way/lora_adapter/adapter_config.json" \
    'sorted(c["target_modules"]) == ["down_proj", "gate_proj", "o_proj", "q_proj", "up_proj", "v_proj"]'
expect_absent "$WORK/way/.factors.safetensors"
lora 14 0 --local_dir "$full/source" --target_dir "$WORK/strict" --strict
expect_absent "$WORK/strict"

# A gathered adapter of another step is told, whether the shards' factors are written beside the model or folded.
stale="$(copy_of "$full" stale)"
lora 0 2 --local_dir "$stale" --target_dir "$WORK/stale_out"
! grep -q "has other factors" "$WORK/err" || fail "a false alarm about lora_adapter/"
python3 "$TESTS/support/edit_safetensors.py" "$stale/lora_adapter/adapter_model.safetensors" flip \
    base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight 5 1 || fail "cannot edit the adapter"
for how in split fold; do
    rm -rf "$WORK/stale_out"
    lora 0 2 --local_dir "$stale" --target_dir "$WORK/stale_out" --lora "$how"
    expect_text "has other factors than the shards: 1 differ, such as model.layers.0.self_attn.q_proj.lora_B.weight"
done

# Without the adapter's own configuration the smaller one and the weights say the same.
bare="$(copy_of "$full" bare)"
rm "$bare/lora_adapter/adapter_config.json"
lora 3 0 --local_dir "$bare" --target_dir "$WORK/none"
expect_text "has no adapter_config.json"
rm -r "$bare/lora_adapter"
lora 0 2 --local_dir "$bare" --target_dir "$WORK/bare_out"
same_tensors "$WORK/bare_out/lora_adapter" "$full/expected/lora_adapter"
expect_text "that no bias was trained is PEFT's default, not said by any file"
config_says "$WORK/bare_out/lora_adapter/adapter_config.json" \
    'c["task_type"] == "CAUSAL_LM" and c["r"] == 4 and c["lora_alpha"] == 10 and c["bias"] == "none" and not c["use_dora"]'
config_says "$WORK/bare_out/lora_adapter/adapter_config.json" \
    'c["target_modules"] == ["down_proj", "gate_proj", "o_proj", "q_proj", "up_proj", "v_proj"]'

# As transformers' trainer leaves it beside the shards' directory, above what is given here.
rm "$bare/lora_train_meta.json"
cp "$full/source/lora_adapter/adapter_config.json" "$(dirname "$bare")/"
lora 0 0 --local_dir "$bare" --target_dir "$WORK/beside_out"
same_tensors "$WORK/beside_out/lora_adapter" "$full/expected/lora_adapter"
config_says "$WORK/beside_out/lora_adapter/adapter_config.json" 'c["lora_alpha"] == 10'
rm "$(dirname "$bare")/adapter_config.json"

# Folded: bit for bit what peft's merge gives in fp32, and nothing of the factors stays.
many_ways "$full/source" --lora fold
same_tensors "$WORK/way" "$full/expected/merged"
expect_absent "$WORK/way/lora_adapter"
expect_absent "$WORK/way/.factors.safetensors"
# test folds as merge does; its factors lie in a temporary directory meanwhile.
for launcher in "" "mpirun -n 3"; do
    export TMPDIR="$WORK/temporary"
    mkdir -p "$TMPDIR"
    expect_code 0 $launcher "$SHARDWELD" test --local_dir "$full/source" --test_hf_dir "$WORK/way" --lora fold --strategy collective
    expect_code 13 $launcher "$SHARDWELD" test --local_dir "$full/source" --test_hf_dir "$WORK/way"
    unset TMPDIR
    expect_absent "$WORK"/temporary/shardweld.*
done
# Tiny buffers cut rows and factors into blocks.
lora 0 3 --local_dir "$full/source" --target_dir "$WORK/tiny" --lora fold --memory_limit 1MiB --message_limit 64 --strategy collective
same_tensors "$WORK/tiny" "$full/expected/merged"
# Rounded once: as the folded fp32 weights rounded.
lora 0 2 --local_dir "$full/source" --target_dir "$WORK/fold_bf16" --lora fold --dtype bf16
lora 0 1 --local_dir "$WORK/tiny" --backend hf --target_dir "$WORK/rounded" --dtype bf16
same_tensors "$WORK/fold_bf16" "$WORK/rounded"
config_says "$WORK/fold_bf16/config.json" 'c.get("dtype", c.get("torch_dtype")) == "bfloat16"'
lora 0 1 --local_dir "$full/source" --target_dir "$WORK/split_bf16" --dtype bf16
head -c 3000 "$WORK/split_bf16/lora_adapter/adapter_model.safetensors" | grep -q '"dtype":"BF16"' || fail "--dtype does not reach the adapter"

# Dropped: the base alone, said.
lora 0 2 --local_dir "$full/source" --target_dir "$WORK/dropped" --lora drop
same_tensors "$WORK/dropped" "$full/expected/base"
expect_absent "$WORK/dropped/lora_adapter"
expect_text "left out"

# Alpha: never 0, never guessed.
sed -i 's/"lora_alpha": 10/"lora_alpha": 0/' "$bare/lora_train_meta.json"
for how in split fold; do
    lora 6 2 --local_dir "$bare" --target_dir "$WORK/none" --lora $how
    expect_text "--lora_alpha"
    expect_absent "$WORK/none"
done
rm "$bare/lora_train_meta.json"
lora 6 0 --local_dir "$bare" --target_dir "$WORK/none" --lora fold
lora 0 2 --local_dir "$bare" --target_dir "$WORK/given" --lora fold --lora_alpha 10
same_tensors "$WORK/given" "$full/expected/merged"
lora 0 2 --local_dir "$full/source" --target_dir "$WORK/other" --lora_alpha 20
expect_text "--lora_alpha 20 is used"
config_says "$WORK/other/lora_adapter/adapter_config.json" 'c["lora_alpha"] == 20'
printf '[]' >"$bare/lora_train_meta.json"
lora 4 0 --local_dir "$bare" --target_dir "$WORK/none"
expect_text "lora_train_meta.json"

# Only the adapter was saved: it is written alone; a model needs its base.
many_ways "$only/source"
same_tensors "$WORK/way/lora_adapter" "$only/expected/lora_adapter"
expect_absent "$WORK/way/config.json"
expect_absent "$WORK/way/model.safetensors"
config_says "$WORK/way/lora_adapter/adapter_config.json" 'c["target_modules"] == ["down_proj", "gate_proj", "o_proj", "q_proj", "up_proj", "v_proj"]'
expect_text "--base"
without="$(copy_of "$only" without)"
rm -r "$without/huggingface"
lora 0 2 --local_dir "$without" --target_dir "$WORK/without_config"
same_tensors "$WORK/without_config/lora_adapter" "$only/expected/lora_adapter"
expect_text "base_model_name_or_path stays unknown"
lora 14 0 --local_dir "$without" --target_dir "$WORK/without_strict" --strict
shallow="$(copy_of "$only" shallow)"
sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' "$shallow/huggingface/config.json"
lora 6 2 --local_dir "$shallow" --target_dir "$WORK/shallow_out"
expect_text "but config.json says num_hidden_layers 1"
lora 2 0 --local_dir "$only/source" --target_dir "$WORK/none" --lora fold
expect_text "--base"
lora 2 0 --local_dir "$only/source" --target_dir "$WORK/none" --lora drop
lora 2 0 --local_dir "$full/source" --target_dir "$WORK/none" --output_format hdf5
expect_absent "$WORK/none"

# --base: the model the adapter was trained on comes from a directory of its own.
lora 0 1 --local_dir "$full/source" --target_dir "$WORK/base_model" --lora drop
many_ways "$only/source" --base "$WORK/base_model" --lora fold
cp -r "$WORK/way" "$WORK/folded_with_base"
expect_code 13 "$SHARDWELD" diff "$WORK/way" "$WORK/base_model" --atol 1e-3 --rtol 1e-3
lora 0 2 --local_dir "$only/source" --target_dir "$WORK/with_base" --base "$WORK/base_model" --strategy collective
same_tensors "$WORK/with_base" "$full/expected/base"
same_tensors "$WORK/with_base/lora_adapter" "$only/expected/lora_adapter"
cp -r "$WORK/base_model" "$WORK/short_base"
sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' "$WORK/short_base/config.json"
lora 6 2 --local_dir "$only/source" --target_dir "$WORK/none" --base "$WORK/short_base" --lora fold
lora 3 0 --local_dir "$only/source" --target_dir "$WORK/none" --base "$WORK/nowhere" --lora fold
expect_code 2 "$SHARDWELD" test --local_dir "$full/source" --test_hf_dir "$WORK/base_model" --base "$WORK/base_model"
expect_text "its own base"
# Where the checkpoint has a base of its own, the result is compared with --base: unfolded nothing was trained, folded something was.
whole="$(copy_of "$full" whole)"
with_tokenizer "$whole"
lora 0 2 --local_dir "$whole" --target_dir "$WORK/split_again" --base "$WORK/base_model" --report "$WORK/split.json"
expect_text "no tensor differs from the base"
# The adapter beside it is nothing that the base lacks.
config_says "$WORK/split.json" '[w["code"] for w in c["warnings"]] == ["adapter_not_folded", "equals_base"] and c["base"]["extra"] == []'
lora 0 0 --local_dir "$only/source" --target_dir "$WORK/fold_again" --base "$WORK/base_model" --lora fold
expect_text " tensors differ, at most by "
# Each factor is said to be in a weight.
config_says "$WORK/fold_again/shardweld_report.json" 'len({f for t in c["tensors"] for f in t.get("factors", [])}) == 2 * sum("factors" in t for t in c["tensors"]) > 0'
lora 12 0 --local_dir "$only/source" --target_dir "$WORK/base_model" --base "$WORK/base_model" --overwrite
expect_absent "$WORK/none"

# DoRA on linear layers (norms of rows) and on embeddings (of columns), and a module trained as a whole: peft's norms have no fixed order, so its
# merge may differ in the last bits; everything else is exact.
dora="$torch/lora_dora_embed_w2"
many_ways "$dora/source"
same_tensors "$WORK/way" "$dora/expected/base"
same_tensors "$WORK/way/lora_adapter" "$dora/expected/lora_adapter"
config_says "$WORK/way/lora_adapter/adapter_config.json" 'c["use_dora"] and c["modules_to_save"] == ["lm_head"]'
cp -r "$WORK/way" "$WORK/dora_split"
many_ways "$dora/source" --lora fold
expect_code 0 "$SHARDWELD" diff "$WORK/way" "$dora/expected/merged" --atol 1e-6 --rtol 1e-6
rm -r "$WORK/dora_split/lora_adapter"
expect_code 13 "$SHARDWELD" diff "$WORK/way" "$WORK/dora_split" --atol 1e-3 --rtol 1e-3

# Adapters that are not all there, or are not what is folded.
declare_field() { # DIR FIELD JSON
    python3 - "$1/lora_adapter/adapter_config.json" "$2" "$3" <<'P' || fail "cannot edit adapter_config.json"
import json, sys
config = json.load(open(sys.argv[1]))
config[sys.argv[2]] = json.loads(sys.argv[3])
json.dump(config, open(sys.argv[1], "w"))
P
}
nothing_written() { # NAME
    [[ ! -e "$WORK/odd_out" ]] || fail "$1: something was written"
    rm -rf "$WORK/odd_out"
}
while read -r code how field value text; do
    odd="$(copy_of "$full" odd)"
    declare_field "$odd" "$field" "$value"
    lora "$code" 0 --local_dir "$odd" --target_dir "$WORK/odd_out" --lora "$how" $([[ $code != 14 ]] || echo --strict) &&
        expect_text "$text"
    nothing_written "$field $value"
done <<'CASES'
5 fold peft_type "LOHA" another method
5 split peft_type "LOHA" another method
14 fold target_parameters ["mlp.w"] no factors are stored of mlp.w
14 split peft_type null does not say which method
14 fold layers_to_transform [1] factors of other layers
14 split modules_to_save ["embed_tokens"] nothing is stored of embed_tokens
14 fold alpha_pattern {"nothing":3} no module with factors is named by nothing
5 split trainable_token_indices [1,2] trainable_token_indices
5 fold layer_replication [[0,2]] layer_replication
5 fold alora_invocation_tokens [7] use --lora split
5 fold use_qalora true use --lora split
6 fold use_dora true lora_magnitude_vector
6 split use_dora true lora_magnitude_vector
6 fold lora_alpha -1 expected a number above 0
6 split lora_alpha "16" expected a number above 0
CASES
odd="$(copy_of "$full" odd)"
for file in "$odd"/model_world_size_2_rank_*.pt; do
    for part in A B; do
        python3 "$TESTS/support/damage.py" drop_entry "$file" "base_model.model.model.layers.0.self_attn.q_proj.lora_$part.default.weight" ||
            fail "cannot drop the factor"
    done
done
for how in fold split; do
    lora 6 2 --local_dir "$odd" --target_dir "$WORK/odd_out" --lora "$how" && expect_text "model.layers.0.self_attn.q_proj"
    nothing_written "a pair of factors is missing, $how"
done
lora 0 0 --local_dir "$odd" --target_dir "$WORK/odd_out" --lora drop
same_tensors "$WORK/odd_out" "$full/expected/base"

# rsLoRA, rank and alpha patterns, trained biases and biases of lora_B; matrices so small that peft's BLAS sums them in another order.
patterns="$torch/lora_patterns_bias_w1"
lora 0 2 --local_dir "$patterns/source" --target_dir "$WORK/patterns"
same_tensors "$WORK/patterns" "$patterns/expected/base"
same_tensors "$WORK/patterns/lora_adapter" "$patterns/expected/lora_adapter"
many_ways "$patterns/source" --lora fold
expect_code 0 "$SHARDWELD" diff "$WORK/way" "$patterns/expected/merged" --atol 1e-6 --rtol 1e-6

# peft itself loads what is written. Needs a Python with torch, transformers and peft: $SHARDWELD_PYTHON, else python3.
python="${SHARDWELD_PYTHON:-python3}"
export HF_HUB_OFFLINE=1
if "$python" -c 'import torch, transformers, peft' 2>/dev/null; then
    lora 0 2 --local_dir "$full/source" --target_dir "$WORK/split"
    "$python" "$TESTS/support/compare_peft.py" "$WORK/split" "$WORK/tiny" exact >"$WORK/out" 2>"$WORK/err" || fail "peft: $(tail -1 "$WORK/err")"
    "$python" "$TESTS/support/compare_peft.py" "$WORK/with_base" "$WORK/folded_with_base" exact >"$WORK/out" 2>"$WORK/err" ||
        fail "peft, --base: $(tail -1 "$WORK/err")"
else
    echo "SKIPPED: $python has no torch, transformers and peft"
    [[ ",${SHARDWELD_REQUIRE:-}," != *,transformers,* ]] || fail "peft is required"
fi
finish

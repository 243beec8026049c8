#!/usr/bin/env bash
# Names and shapes as the Hub has them: every table of tests/data/hf_names, planned with its recipe.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

python3 "$TESTS/support/plan_tables.py" "$SHARDWELD" "$TESTS/data/hf_names" "$WORK/tables" >"$WORK/faults" || fail "$(cat "$WORK/faults")"
tail -1 "$WORK/faults"

# A table that does not fit is told: the test above can fail.
mkdir "$WORK/wrong"
sed 's/"mlp.gate_proj.weight"\|gate_proj/gate_prov/' "$TESTS/data/hf_names/llama.json" >"$WORK/wrong/llama.json"
python3 "$TESTS/support/plan_tables.py" "$SHARDWELD" "$WORK/wrong" "$WORK/tables_wrong" >"$WORK/out" && fail "a wrong name passed"

# Where the hub has two spellings, the one of the model in --hf_config is written. spelled CASE REFERENCE EXPECTED: merges CASE, or a model.
spelled() {
    local backend=auto
    [[ ! -e "$1/model.safetensors" ]] || backend=hf
    rm -rf "$WORK/spelled"
    expect_code 0 "$SHARDWELD" merge --local_dir "$1" --backend "$backend" --hf_config "$2" --target_dir "$WORK/spelled" -q --no_fsync || return
    python3 "$TESTS/support/compare_safetensors.py" "$WORK/spelled" "$3" >"$WORK/differs" 2>&1 || fail "$1 as $2 is spelled: $(<"$WORK/differs")"
}
spelling() { python3 "$TESTS/support/make_spelling.py" "$@" || fail "cannot make $*"; }

# Experts in one tensor a layer, or one by one, whatever is stored; an index is enough.
moe="$TESTS/data/megatron/qwen3moe-tp2-ep2-torchdist-bf16"
spelling packed "$moe/expected" "$WORK/packed"
spelling index "$WORK/packed" "$WORK/packed_index"
spelling index "$moe/expected" "$WORK/single_index"
for reference in packed packed_index single_index; do
    cp "$moe/hf/config.json" "$WORK/$reference/"
done
spelled "$moe/source" "$WORK/packed" "$WORK/packed"
spelled "$moe/source" "$WORK/packed_index" "$WORK/packed"
spelled "$moe/source" "$WORK/single_index" "$moe/expected"
spelled "$WORK/packed" "$WORK/single_index" "$moe/expected"
spelled "$WORK/packed" "$moe/hf" "$moe/expected"

# The order of dims under one name: the reference's, else that of the stored tensors.
python3 "$TESTS/support/random_model.py" "$TESTS/data/hf_names/qwen3_vl_moe.json" "$WORK/vision"
spelling turned "$WORK/vision" "$WORK/turned"
mkdir "$WORK/no_reference"
cp "$WORK/vision/config.json" "$WORK/turned/"
cp "$WORK/vision/config.json" "$WORK/no_reference/"
for stored in vision turned; do
    for reference in vision turned; do
        spelled "$WORK/$stored" "$WORK/$reference" "$WORK/$reference"
    done
    spelled "$WORK/$stored" "$WORK/no_reference" "$WORK/$stored"
done

# How names of what passes begin.
tower="$TESTS/data/torch/plain_w1_bf16_gemma3"
expect_code 0 "$SHARDWELD" merge --local_dir "$tower/source" --target_dir "$WORK/as_stored" -q --no_fsync
spelling begun "$WORK/as_stored" "$WORK/begun" vision_tower. vision_tower.vision_model.
spelling index "$WORK/as_stored" "$WORK/begun_index"
cp "$tower"/source/huggingface/config.json "$WORK/begun/"
cp "$tower"/source/huggingface/config.json "$WORK/begun_index/"
spelled "$tower/source" "$WORK/begun" "$WORK/begun"
spelled "$WORK/begun" "$WORK/begun_index" "$WORK/as_stored"

# What cannot be read is no reference.
echo "{" >"$WORK/packed_index/model.safetensors.index.json"
spelled "$moe/source" "$WORK/packed_index" "$moe/expected"
finish

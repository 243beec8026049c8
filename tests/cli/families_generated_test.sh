#!/usr/bin/env bash
# Recipes that were made of transformers: module trees become what save_pretrained writes, by one process and by three, and are written back from that.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

python3 "$TESTS/support/generated_models.py" "$WORK/models" || fail "no models"
same() { python3 "$TESTS/support/compare_safetensors.py" "$1" "$2" >"$WORK/differs" 2>&1 || fail "$1: $(<"$WORK/differs")"; }
for model in "$WORK"/models/*; do
    merge=(merge --backend hf --local_dir "$model/tree" --hf_config "$WORK/config" -q --no_fsync)
    mkdir -p "$WORK/config"
    cp "$model/tree/config.json" "$WORK/config"
    expect_code 0 "$SHARDWELD" "${merge[@]}" --target_dir "$model/one"
    ! grep family_unknown "$WORK/err" || fail "$(basename "$model") has no recipe"
    same "$model/one" "$model/hub"
    expect_code 0 mpirun -n 3 "$SHARDWELD" "${merge[@]}" --target_dir "$model/three"
    same "$model/three" "$model/hub"
    # What has the saved names stays as it is.
    expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$model/hub" --hf_config "$WORK/config" --target_dir "$model/again" -q --no_fsync
    same "$model/again" "$model/hub"
    expect_code 0 "$SHARDWELD" recipes "$(basename "$model")"
    grep -q "match @model_type = \"$(basename "$model")\"" "$WORK/out" || fail "$(basename "$model"): $(<"$WORK/out")"
    expect_code 0 "$SHARDWELD" recipes "$(basename "$model")" --config "$WORK/config" --json
    python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["recipe"] != sys.argv[2])' "$WORK/out" "$(basename "$model")" || fail "$(basename "$model"): $(<"$WORK/out")"
    # Servers look for the saved names.
    "$SHARDWELD" check "$model/hub" --target vllm >"$WORK/hub" || true
    "$SHARDWELD" check "$model/tree" --target vllm >"$WORK/tree" || true
    ! grep 'transformers saves models of this model_type' "$WORK/hub" || fail "$(basename "$model"): names that are saved are told"
    [[ "$model" == */jais2 ]] || grep -q '^error .*transformers saves models of this model_type' "$WORK/tree" || fail "$(basename "$model"): names of the tree are not told: $(<"$WORK/tree")"
    grep -q "of the family $(basename "$model") are not checked" "$WORK/hub" || fail "$(basename "$model"): $(<"$WORK/hub")"
    back=(reshape "$model/hub" "$model/back" --to fsdp:world=2 --no_fsync)
    if [[ "$model" == */lara_mini ]]; then
        # How long each of the joined parts was, the saved tensor does not tell.
        expect_code 6 "$SHARDWELD" "${back[@]}"
        continue
    fi
    expect_code 0 "$SHARDWELD" "${back[@]}"
    expect_code 0 "$SHARDWELD" merge --local_dir "$model/back" --hf_config "$WORK/config" --names module --target_dir "$model/tree_again" -q --no_fsync
    same "$model/tree_again" "$model/tree"
done

# A tensor whose extents are no whole numbers of parts is told.
model="$WORK/models/glm5_next"
cp "$model/tree/config.json" "$WORK/config"
python3 "$TESTS/support/edit_safetensors.py" "$model/tree/model.safetensors" reshape model.language_model.layers.1.self_attn.conv1d.weight 4,1,9
expect_code 6 "$SHARDWELD" merge --backend hf --local_dir "$model/tree" --hf_config "$WORK/config" --target_dir "$WORK/odd" -q
# A type that could not be proved has none.
sed -i 's/glm5_next/inkling_mm_model/' "$WORK/config/config.json"
expect_code 5 "$SHARDWELD" recipes --json --config "$WORK/config"
finish

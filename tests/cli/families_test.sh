#!/usr/bin/env bash
# Families without a Megatron checkpoint of the real framework, and MTP layers and settings that the real ones lack: small models written as Megatron stores them, one file for each
# tensor-parallel rank and whole tensors in zarr directories, come back bit for bit.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# written FAMILY [fused]: the model in both forms in $WORK/FAMILY.
written() {
    rm -rf "${WORK:?}/$1"
    python3 "$TESTS/support/write_family.py" "$1" "$WORK/$1" "${@:2}" || fail "cannot write $1"
    for form in legacy zarr; do
        ln -s ../hf "$WORK/$1/$form/hf"
    done
}

# comes_back FAMILY FORM RANKS
comes_back() {
    rm -rf "$WORK/merged"
    merge_case "$WORK/$1/$2" "$WORK/merged" "$3" && same_as_expected "$WORK/$1" "$WORK/merged"
}

for family in llada phi3 gemma2 gemma3_text glm glm4 glm4_moe glm4_moe_lite qwen3_next qwen3_5_text exaone4 nemotron gpt2; do
    written "$family"
    comes_back "$family" legacy 2
    comes_back "$family" zarr 0
done

# Both down-projections of latent attention in one tensor: the rows of each rank are put apart. A norm that no such model has is refused.
written glm4_moe_lite fused
comes_back glm4_moe_lite legacy 2
comes_back glm4_moe_lite zarr 0
cp -r "$WORK/glm4_moe_lite/zarr/source/decoder.layers.0.self_attention."{linear_q_up_proj,linear_q_proj}.layer_norm_weight
expect_code 6 "$SHARDWELD" merge --local_dir "$WORK/glm4_moe_lite/zarr/source" --hf_config "$WORK/glm4_moe_lite/hf" --target_dir "$WORK/refused" &&
    expect_text "decoder.layers.0.self_attention.linear_q_proj.layer_norm_weight"
written glm4_moe_lite

# A family that no real checkpoint shows is told apart.
unknown="$TESTS/data/megatron_families/llama4text-tp2-ep2-torchdist-bf16"
mkdir "$WORK/llama4"
python3 -c 'import json, sys; json.dump({"model_type": "llama4", "text_config": json.load(open(sys.argv[1]))}, open(sys.argv[2], "w"))' \
    "$unknown/hf/config.json" "$WORK/llama4/config.json"
expect_code 14 "$SHARDWELD" merge --local_dir "$unknown/source" --hf_config "$WORK/llama4" --target_dir "$WORK/strict" --strict &&
    expect_text "was never compared with a model exported by the framework"

# An MTP layer is optional, whatever config.json promises; half of one is a checkpoint of which files are missing.
for family in glm4_moe glm4_moe_lite qwen3_next qwen3_5_text; do
    for part in enorm linear_fc2; do
        mkdir "$WORK/aside"
        mv "$WORK/$family"/zarr/source/mtp.*"$part"* "$WORK/aside"
        expect_code 6 "$SHARDWELD" merge --local_dir "$WORK/$family/zarr/source" --hf_config "$WORK/$family/hf" --target_dir "$WORK/half" &&
            expect_text "of mtp.0 a part is stored"
        expect_absent "$WORK/half"
        mv "$WORK"/aside/* "$WORK/$family/zarr/source"
        rmdir "$WORK/aside"
    done
    # Fewer layers than config.json promises, and not none.
    mkdir "$WORK/two"
    cp -r "$WORK/$family/hf" "$WORK/two/hf"
    sed -i -E 's/"(num_nextn_predict_layers|mtp_num_hidden_layers)": 1/"\1": 2/' "$WORK/two/hf/config.json"
    if grep -qE '"(num_nextn_predict_layers|mtp_num_hidden_layers)": 2' "$WORK/two/hf/config.json" && [[ "$family" == glm4* ]]; then
        expect_code 0 "$SHARDWELD" merge --local_dir "$WORK/$family/zarr/source" --hf_config "$WORK/two/hf" --target_dir "$WORK/two/out" --no_fsync &&
            expect_text "num_nextn_predict_layers 2), but only 1 of them are stored"
        grep -q '"num_nextn_predict_layers": 1' "$WORK/two/out/config.json" || fail "$family: config.json promises two layers"
    fi
    rm -r "$WORK/two"
    rm -r "$WORK/$family"/zarr/source/mtp.*
    rm -rf "$WORK/merged"
    merge_case "$WORK/$family/zarr" "$WORK/merged" 0
    python3 - "$TESTS/support" "$WORK/merged" "$WORK/$family/expected" <<'P' || fail "$family without its MTP layer"
import glob, json, sys
sys.path.insert(0, sys.argv[1])
import edit_safetensors as files
import small_families as small
got, wanted = ({name: one for path in glob.glob(folder + "/*.safetensors") for name, one in files.read(path).items()} for folder in sys.argv[2:4])
config = json.load(open(sys.argv[2] + "/config.json"))
prefix, others = small.extra_layer(config, config["num_hidden_layers"])
extra = {name for name in wanted if name.startswith(prefix)} | {name + ".weight" for name in others.values()}
assert len(extra) > 10 and got == {name: one for name, one in wanted.items() if name not in extra}, set(got) ^ set(wanted)
assert config.get("num_nextn_predict_layers", 0) == 0, config
P
done

# A router's correction that one layer has and another lost is an error, one that no layer has a warning.
for lost in decoder.layers.1.mlp.router.expert_bias decoder.layers.*.mlp.router.expert_bias; do
    (cd "$WORK/glm4_moe/zarr/source" && ls -d $lost >/dev/null) || fail "glm4_moe has no $lost"
    code=$([[ "$lost" == *'*'* ]] && echo 0 || echo 6)
    rm -rf "$WORK"/glm4_moe/zarr/source/$lost "$WORK/merged"
    expect_code "$code" "$SHARDWELD" merge --local_dir "$WORK/glm4_moe/zarr/source" --hf_config "$WORK/glm4_moe/hf" --target_dir "$WORK/merged" --no_fsync &&
        expect_text "e_score_correction_bias is not stored"
done

# What is added is added in fp32, and the sum rounded to the dtype that is written.
rm -rf "$WORK/merged"
merge_case "$WORK/qwen3_next/legacy" "$WORK/merged" 2 --dtype fp32
python3 - "$TESTS/support" "$WORK/merged" "$WORK/qwen3_next/zarr/source" <<'P' || fail "the sums in fp32 are others"
import glob, struct, sys
sys.path.insert(0, sys.argv[1])
import edit_safetensors as files
got = {name: one for path in glob.glob(sys.argv[2] + "/*.safetensors") for name, one in files.read(path).items()}
for layer in range(3):
    stored = open(f"{sys.argv[3]}/decoder.layers.{layer}.self_attention.out_norm.weight/0", "rb").read()
    values = [struct.unpack("<f", b"\0\0" + stored[at:at + 2])[0] for at in range(0, len(stored), 2)]
    assert got[f"model.layers.{layer}.linear_attn.norm.weight"][2] == b"".join(struct.pack("<f", value + 1) for value in values)
P

# What no shape shows is refused.
for change in "gemma2 apply_layernorm_1p False" "qwen3_next apply_layernorm_1p False" "nemotron apply_layernorm_1p False" \
    "phi3 apply_layernorm_1p True" "phi3 apply_layernorm_1p 'True'" "phi3 use_mup True" "glm4_moe rotary_interleaved True"; do
    read -r family name value <<<"$change"
    for file in "$WORK/$family"/legacy/source/*/*.pt; do
        python3 "$TESTS/support/damage.py" set_args "$file" "$name" "$value" || fail "cannot set $name"
    done
    expect_code 5 "$SHARDWELD" merge --local_dir "$WORK/$family/legacy/source" --hf_config "$WORK/$family/hf" --target_dir "$WORK/refused" &&
        expect_text "its args say $name $(tr -d "'" <<<"${value,,}")"
    expect_absent "$WORK/refused"
    python3 "$TESTS/support/damage.py" set_args "$WORK/$family/legacy/source/mp_rank_00/model_optim_rng.pt" "$name" None
    python3 "$TESTS/support/damage.py" set_args "$WORK/$family/legacy/source/mp_rank_01/model_optim_rng.pt" "$name" None
done

# Where config.json lists the kinds of layers, models of transformers go by the list, in all forms.
rm -rf "$WORK/merged"
expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$WORK/glm4_moe_lite/expected" --target_dir "$WORK/merged"
same_as_expected "$WORK/glm4_moe_lite" "$WORK/merged"
finish

#!/usr/bin/env bash
# --quantize from outside: every encoding with the bytes of the real libraries (tests/data/quant) at several numbers of ranks and with
# both strategies; what stays as it is; what is refused; a resumed merge; what a checkpoint of another format gives.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"
data="$TESTS/data/quant"

# merged MODEL ENCODING OUT RANKS [options]
merged() {
    local model="$1" encoding="$2" out="$3" ranks="$4"
    shift 4
    local launcher=()
    ((ranks == 1)) || launcher=(mpirun -n "$ranks")
    expect_code 0 "${launcher[@]}" "$SHARDWELD" merge --backend hf --local_dir "$data/$model/input" --target_dir "$out" \
        --quantize "$encoding" -q --no_fsync "$@"
}

# same MODEL ENCODING OUT
same() {
    python3 "$TESTS/cli/quantised.py" "$3" "$data/$1/expected.json" "$2" >"$WORK/compare" || fail "$1 $2: $(cat "$WORK/compare")"
}

# values DIR RANKS [options]: what the codes of a model stand for.
values() {
    local dir="$1" ranks="$2"
    shift 2
    local launcher=()
    ((ranks == 1)) || launcher=(mpirun -n "$ranks")
    expect_code 0 "${launcher[@]}" "$SHARDWELD" merge --backend hf --local_dir "$dir" --target_dir "$WORK/values" --dtype bf16 -q --no_fsync \
        --overwrite "$@"
}

# Every encoding and back.
numbers="1 2 3${SHARDWELD_ALL_WAYS:+ 5 8}"
for model in llama128 llama192 qwen3moe128 gptoss; do
    for encoding in $(python3 -c 'import json, sys; print(*(n for n in json.load(open(sys.argv[1])) if " " not in n))' "$data/$model/expected.json"); do
        ways_of $numbers
        for way in "${ways[@]}"; do
            read -r ranks strategy <<<"$way"
            merged "$model" "$encoding" "$WORK/codes" "$ranks" --strategy "$strategy" --overwrite && same "$model" "$encoding" "$WORK/codes"
            values "$WORK/codes" "$ranks" --strategy "$strategy" && same "$model" "bf16 of $encoding" "$WORK/values"
        done
    done
done

# Blocks and scales of all kinds, as published; what they stand for has no scales any more.
values "$data/gptoss/read" 2 && same gptoss "bf16 of read" "$WORK/values"
! grep -q quantization_config "$WORK/values/config.json" || fail "bf16 with a quantization_config"
expect_code 5 "$SHARDWELD" merge --backend hf --local_dir "$data/gptoss/read" --target_dir "$WORK/none" --dtype fp16 -q
expect_text "which become bf16 only"

# config.json names what stays as it is, in both spellings.
merged llama192 fp8-block "$WORK/config" 1
python3 - "$WORK/config/config.json" <<'EOF' || fail "quantization_config"
import json, sys
config = json.load(open(sys.argv[1]))["quantization_config"]
kept = ["lm_head", "model.embed_tokens"] + [f"model.layers.0.self_attn.{name}_proj" for name in "koqv"]
assert config["quant_method"] == "fp8" and config["weight_block_size"] == [128, 128]
assert config["modules_to_not_convert"] == kept and config["ignored_layers"] == kept, config
EOF

# Small files, a report that verify believes, and a run that is cut short and goes on.
merged qwen3moe128 w8a16 "$WORK/parts" 2 --max_shard_size 64KiB --report "$WORK/report.json"
same qwen3moe128 w8a16 "$WORK/parts"
expect_code 0 "$SHARDWELD" verify "$WORK/parts" --report "$WORK/report.json" -q

# How near the codes are: the report's numbers again from the files, at any number of ranks, beside those of another model.
merged qwen3moe128 fp8-block "$WORK/other" 1
expect_code 0 mpirun -n 3 "$SHARDWELD" diff "$WORK/parts" "$WORK/other" --base "$data/qwen3moe128/input" --json -q
python3 - "$WORK/report.json" "$WORK/out" <<'EOF' || fail "diff --base"
import json, math, sys
report, found = (json.load(open(path)) for path in sys.argv[1:])
wanted = {t["name"].replace("weight_packed", "weight"): t["quantised"] for t in report["tensors"] if "quantised" in t}
parts, other = found["models"]
assert {t["name"] for t in parts["tensors"]} == set(wanted) == {t["name"] for t in other["tensors"]}, found
for tensor in parts["tensors"]:
    told, again = wanted[tensor["name"]], tensor["quantised"]
    assert math.isclose(told.pop("relative_error"), again.pop("relative_error"), rel_tol=1e-12), tensor
    assert told == again, (told, again)
assert {t["quantised"]["encoding"] for t in other["tensors"]} == {"fp8-block"} and parts["n_same_bits"] == parts["n_others"] > 0
EOF
expect_code 0 "$SHARDWELD" diff "$WORK/other" --base "$data/qwen3moe128/input" -q
expect_code 13 "$SHARDWELD" diff "$WORK/other" --base "$data/llama128/input" -q
expect_text "have other tensors"
# test reads codes as weights, too.
expect_code 0 mpirun -n 2 "$SHARDWELD" test --backend hf --local_dir "$WORK/other" --test_hf_dir "$data/qwen3moe128/input" --dtype bf16 --atol 1 -q

# What servers fuse stays together.
merged llama128 fp8-channel "$WORK/ignored" 1 --quantize_ignore 'q_proj|down_proj'
python3 - "$WORK/ignored/model.safetensors" <<'EOF' || fail "--quantize_ignore"
import json, sys
data = open(sys.argv[1], "rb").read()
header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
scales = sorted(name.split(".")[-2] for name in header if name.endswith("_scale"))
assert scales == ["gate_proj", "o_proj", "up_proj"], scales
EOF

# Refused: values without a code, by name; models whose layers nobody names; options that do not go together.
cp -r "$data/llama128/input" "$WORK/nan"
python3 - "$WORK/nan/model.safetensors" <<'EOF'
import json, sys
path = sys.argv[1]
data = bytearray(open(path, "rb").read())
length = int.from_bytes(data[:8], "little")
begin = json.loads(data[8:8 + length])["model.layers.0.mlp.up_proj.weight"]["data_offsets"][0]
data[8 + length + begin + 2000:8 + length + begin + 2002] = b"\xc0\x7f"
open(path, "wb").write(data)
EOF
for encoding in fp8-block nvfp4a16; do
    expect_code 5 mpirun -n 2 "$SHARDWELD" merge --backend hf --local_dir "$WORK/nan" --target_dir "$WORK/none" --quantize "$encoding" -q
    expect_text "model.layers.0.mlp.up_proj.weight"
    expect_text "a NaN cannot be quantised"
    expect_absent "$WORK/none"
done
expect_code 2 "$SHARDWELD" merge --local_dir "$WORK/nan" --target_dir "$WORK/none" --quantize fp7
expect_text "fp8-block"
expect_code 2 "$SHARDWELD" merge --local_dir "$WORK/nan" --target_dir "$WORK/none" --quantize_ignore x
expect_code 5 "$SHARDWELD" merge --backend hf --local_dir "$data/llama128/input" --target_dir "$WORK/none" --quantize fp8-block --names module
expect_text "linear"

# Shards of other formats: the same bytes as what is quantised of the merged model.
for shards in torch/fsdp1_w2_fp32_llama torch/fsdp2_tp_2x2_bf16_qwen2 torch/dcp_w2_bf16_qwen2 megatron/llama-tp4-legacy-bf16 \
    megatron/qwen3moe-tp2-ep2-torchdist-bf16 megatron/qwen2-tied-tp2-zarr; do
    ways_of $numbers
    rm -rf "$WORK/plain" "$WORK/twice"
    merge_case "$TESTS/data/$shards" "$WORK/plain" 0 --dtype bf16
    expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$WORK/plain" --target_dir "$WORK/twice" --quantize fp8-channel -q --no_fsync
    for way in "${ways[@]}"; do
        read -r ranks strategy <<<"$way"
        rm -rf "$WORK/once"
        merge_case "$TESTS/data/$shards" "$WORK/once" "$ranks" --dtype bf16 --quantize fp8-channel --strategy "$strategy"
        cmp -s "$WORK/once/model.safetensors" "$WORK/twice/model.safetensors" || fail "$shards, $way: fp8-channel of shards and of their model differ"
    done
done
# What stays as it is, is on the list as the Hub calls it, and as the tree of modules does.
source="$TESTS/data/megatron_families/gemma3vl-tp2-legacy-bf16"
for encoding in fp8-channel w4a16-channel; do
    expect_code 0 "$SHARDWELD" merge "$source/source" "$WORK/tower" --hf_config "$source/hf" --quantize "$encoding" -q --no_fsync --overwrite
    python3 - "$WORK/tower/config.json" <<'EOF' || fail "modules of the tower by one name only ($encoding)"
import json, sys
ignored = json.load(open(sys.argv[1]))["quantization_config"]["ignore"]
hub = [name for name in ignored if name.startswith("vision_tower.")]
assert hub and all(f"model.{name}" in ignored for name in hub), ignored
assert "lm_head" in ignored and len(ignored) == len(set(ignored)), ignored
EOF
done
finish

#!/usr/bin/env bash
# LoRA adapters that Megatron-Bridge keeps beside Megatron's weights, or alone: split into what PEFT loads, folded, dropped. Expected is
# what Megatron-Bridge exports, and W + alpha/r B A in fp32.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data="$TESTS/data/megatron_lora"

# same GOT EXPECTED: models (or adapters) with the same bytes.
same() {
    checks=$((checks + 1))
    python3 "$TESTS/support/compare_safetensors.py" "$1" "$2" >/dev/null 2>"$WORK/compare" || fail "$1: $(cat "$WORK/compare")"
}

# near GOT EXPECTED: fp32 models that differ by 1e-6 of the largest element at most: sums of four products, in any order.
near() {
    checks=$((checks + 1))
    python3 - "$1/model.safetensors" "$2/model.safetensors" 2>"$WORK/compare" <<'P' || fail "$1: $(tail -1 "$WORK/compare")"
import array, json, struct, sys

def read(path):
    blob = open(path, "rb").read()
    end = 8 + struct.unpack("<Q", blob[:8])[0]
    return {k: array.array("f", blob[end + v["data_offsets"][0]:end + v["data_offsets"][1]])
            for k, v in json.loads(blob[8:end]).items() if k != "__metadata__" and v["dtype"] == "F32"}

got, expected = map(read, sys.argv[1:])
assert expected and got.keys() == expected.keys(), "other tensors"
for name, values in expected.items():
    largest = max(map(abs, values))
    assert len(values) == len(got[name]) and all(abs(a - b) <= 1e-6 * largest for a, b in zip(values, got[name])), name
P
}

# lora CODE RANKS CASE [OPTIONS]
lora() {
    local launcher=()
    (($2 == 0)) || launcher=(mpirun -n "$2")
    rm -rf "$WORK/model"
    expect_code "$1" "${launcher[@]}" "$SHARDWELD" merge --local_dir "$data/$3/source" --target_dir "$WORK/model" "${@:4}"
}

for name in llama-tp2-torchdist-fp32 canonical-llama-tp2-torchdist-fp32 qwen3-tp2-pp2-legacy-fp32; do
    config=(--hf_config "$data/$name/hf")
    lora 0 0 "$name" "${config[@]}"
    same "$WORK/model" "$data/$name/expected/base"
    same "$WORK/model/lora_adapter" "$data/$name/expected/lora_adapter"
    expect_text "WITHOUT the LoRA adapter"
    checks=$((checks + 1))
    python3 - "$WORK/model/lora_adapter/adapter_config.json" "$data/$name/expected/lora_adapter/adapter_config.json" <<'P' || fail "$name: another adapter_config.json"
import json, sys
got, expected = (json.load(open(path)) for path in sys.argv[1:])
for field in ("peft_type", "r", "lora_alpha", "task_type", "use_dora", "use_rslora", "bias", "fan_in_fan_out"):
    assert got[field] == expected[field], (field, got[field])
assert sorted(got["target_modules"]) == sorted(expected["target_modules"]), got["target_modules"]
P
    sum="$(sum_of "$WORK/model")"
    lora 0 3 "$name" "${config[@]}" --strategy collective -q
    checks=$((checks + 1))
    [[ "$(sum_of "$WORK/model")" == "$sum" ]] || fail "$name: other bytes with 3 ranks"
    lora 0 2 "$name" "${config[@]}" --lora fold -q
    near "$WORK/model" "$data/$name/expected/merged_fp32"
done
lora 0 0 "$name" "${config[@]}" --lora drop -q
same "$WORK/model" "$data/$name/expected/base"

# Adapters alone: an adapter, or with the base that they were trained on a model.
name=only-llama-tp2-torchdist-bf16
lora 0 2 "$name" --hf_config "$data/$name/hf" -q
same "$WORK/model/lora_adapter" "$data/$name/expected/lora_adapter"
expect_absent "$WORK/model/model.safetensors"
lora 0 2 "$name" --base "$data/$name/hf" -q
same "$WORK/model/model.safetensors" "$data/$name/hf/model.safetensors"
same "$WORK/model/lora_adapter" "$data/$name/expected/lora_adapter"
lora 0 3 "$name" --base "$data/$name/hf" --lora fold --dtype fp32 -q
near "$WORK/model" "$data/$name/expected/merged_fp32"
lora 2 0 "$name" --hf_config "$data/$name/hf" --lora fold -q

# alpha is in run_config.yaml only.
cp -r "$data/llama-tp2-torchdist-fp32/source" "$WORK/source"
chmod -R u+w "$WORK/source"
merging=("$SHARDWELD" merge --local_dir "$WORK/source" --hf_config "$data/llama-tp2-torchdist-fp32/hf" --target_dir "$WORK/none" -q)
sed -i 's/LoRA$/DoRA/' "$WORK/source/iter_0000010/run_config.yaml"
expect_code 5 "${merging[@]}"
expect_text "says that the adapter is of DoRA"
rm "$WORK/source/iter_0000010/run_config.yaml"
expect_code 6 "${merging[@]}"
expect_text "--lora_alpha"
expect_absent "$WORK/none"
expect_code 0 "${merging[@]}" --lora_alpha 8
finish

#!/usr/bin/env bash
# Nothing lost: every stored byte is accounted for, and what is written has checksums that depend on nothing else.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data="$TESTS/data"
report="$WORK/report.json"

# Every checkpoint: the ledger of the plan sums up to what Python counts in the catalogue.
n_cases=0
for source in "$data"/{megatron,megatron_more,torch}/*/source; do
    dir="$(dirname "$source")"
    options=(--local_dir "$source")
    [[ -n "$(find "$source" -type d -name huggingface -print -quit)" || ! -d "$dir/hf" ]] || options+=(--hf_config "$dir/hf")
    "$SHARDWELD" plan "${options[@]}" --json -q >"$WORK/plan.json" 2>"$WORK/err" || continue
    expect_code 0 "$SHARDWELD" inspect --local_dir "$source" --json
    n_cases=$((n_cases + 1))
    python3 - "$WORK/plan.json" "$WORK/out" <<'P' || fail "$(basename "$dir"): the ledger does not close"
import json, math, sys
SIZES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
         "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e8m0fnu": 1}
ledger = json.load(open(sys.argv[1]))["ledger"]
catalogue = json.load(open(sys.argv[2]))
total = 0
for tensor in catalogue["tensors"]:
    one = math.prod(tensor["shape"]) * SIZES[tensor["dtype"]]
    if tensor["local"]:
        total += one * (tensor["shards"] + tensor["replicas"])
    else:
        assert tensor["bytes"] == one, tensor
        total += one + tensor["replica_bytes"]
total += sum(row["bytes"] for row in catalogue["ignored"])
told = ledger["consumed"] + ledger["replica"] + ledger["padding"] + sum(row["bytes"] for row in ledger["ignored"])
assert told == total == ledger["stored"], (told, total, ledger)
assert ledger["consumed"] > 0
assert all(row["count"] > 0 and row["reason"] and row["pattern"] for row in ledger["ignored"]), ledger
P
done
((n_cases > 60)) || fail "only $n_cases checkpoints were looked at"

# Adapters in every way: split, folded, dropped; also those with modules trained as a whole and biases.
for case in fsdp2_lora_w2_fp32_qwen2 lora_dora_embed_w2 lora_patterns_bias_w1; do
    for how in split fold drop; do
        rm -rf "$WORK/out_$how"
        expect_code 0 "$SHARDWELD" merge --local_dir "$data/torch/$case/source" --target_dir "$WORK/out_$how" --lora "$how" --report "$report" -q
        python3 - "$report" "$how" <<'P' || fail "$case, $how: the ledger is wrong"
import json, sys
report = json.load(open(sys.argv[1]))
ledger = report["ledger"]
left_out = sum(row["bytes"] for row in ledger["ignored"])
assert ledger["stored"] == ledger["consumed"] + ledger["replica"] + ledger["padding"] + left_out, ledger
assert (sys.argv[2] == "drop") == any("--lora drop" in row["reason"] for row in ledger["ignored"]), ledger
P
        rm -rf "$WORK/out_$how"
    done
done

# A part of the model: what is left out is in the ledger, and the rest is what it always is.
merge_case "$data/megatron/qwen2-tp2-pp2-torchdist-bf16" "$WORK/whole" 0 --report "$WORK/whole.json"
merge_case "$data/megatron/qwen2-tp2-pp2-torchdist-bf16" "$WORK/part" 2 --report "$report" --include 'layers\.[12]\.' --exclude '\.bias$'
python3 - "$WORK/whole.json" "$report" <<'P' || fail "--include and --exclude"
import json, re, sys
whole, part = (json.load(open(path)) for path in sys.argv[1:])
wanted = [t for t in whole["tensors"] if re.search(r"layers\.[12]\.", t["name"]) and not t["name"].endswith(".bias")]
assert 0 < len(wanted) < len(whole["tensors"]) and [t["name"] for t in part["tensors"]] == [t["name"] for t in wanted]
assert [t["xxh3_128"] for t in part["tensors"]] == [t["xxh3_128"] for t in wanted]
ledger = part["ledger"]
left_out = sum(row["bytes"] for row in ledger["ignored"])
assert ledger["consumed"] == sum(t["bytes"] for t in wanted)
assert ledger["stored"] == whole["ledger"]["stored"] == ledger["consumed"] + ledger["replica"] + ledger["padding"] + left_out
assert {row["reason"] for row in ledger["ignored"]} >= {"not in --include", "in --exclude"}
P
expect_code 2 "$SHARDWELD" plan --local_dir "$data/torch/fsdp1_w2_fp32_llama/source" --include nothing_is_called_so && expect_text "leave no tensor"
expect_code 2 "$SHARDWELD" plan --local_dir "$data/torch/fsdp1_w2_fp32_llama/source" --exclude '(' && expect_text "not a regular expression"

# Checksums, ledger and findings are those of one rank at any number of ranks, with either strategy and other files.
same_fields() {
    python3 - "$1" "$2" <<'P'
import json, sys
a, b = (json.load(open(path)) for path in sys.argv[1:])
for field in ("root", "ledger", "sanity"):
    assert a[field] == b[field], (field, a[field], b[field])
keys = ("name", "dtype", "shape", "bytes", "xxh3_128")
assert [[t[k] for k in keys] for t in a["tensors"]] == [[t[k] for k in keys] for t in b["tensors"]]
assert all(len(t["xxh3_128"]) == 32 for t in a["tensors"]) and len(a["root"]) == 32
P
}
for case in megatron/mixtral-ep2-pp2-legacy-bf16 torch/hsdp2_w4_bf16_llama; do
    rm -rf "$WORK/one"
    merge_case "$data/$case" "$WORK/one" 0 --report "$WORK/one.json"
    for ranks in 1 2 3; do
        for strategy in direct collective; do
            rm -rf "$WORK/many"
            merge_case "$data/$case" "$WORK/many" "$ranks" --strategy "$strategy" --max_shard_size "${ranks}00KB" --report "$report" || continue
            same_fields "$WORK/one.json" "$report" || fail "$case: other checksums or ledger with $ranks ranks, $strategy"
        done
    done
done

# sha256 of every file, as sha256sum has it; verify compares them.
llama="$data/megatron/llama-tp4-legacy-bf16"
for ranks in 0 3; do
    rm -rf "$WORK/hashed"
    merge_case "$llama" "$WORK/hashed" "$ranks" --report "$report" --sha256 --max_shard_size 100KB
    python3 -c 'import json, sys
for file in json.load(open(sys.argv[1]))["files"]:
    print(file["sha256"] + "  " + file["name"])' "$report" >"$WORK/sums"
    (cd "$WORK/hashed" && find . -type f | sed 's|^\./||' | sort | xargs sha256sum) | cmp -s - "$WORK/sums" || fail "$ranks ranks: not the sums of sha256sum"
    expect_code 0 mpirun -n 2 "$SHARDWELD" verify "$WORK/hashed" --report "$report" --sha256
    grep -q "^sha256 .*files match the report" "$WORK/out" || fail "verify: $(cat "$WORK/out")"
done
echo >>"$WORK/hashed/config.json"
rm "$WORK/hashed/generation_config.json" 2>/dev/null || rm "$WORK/hashed/tokenizer.json"
touch "$WORK/hashed/README.md"
for launcher in "" "mpirun -n 3"; do
    expect_code 13 $launcher "$SHARDWELD" verify "$WORK/hashed" --report "$report" --sha256
    [[ "$(grep -c '^differs' "$WORK/out")" == 2 ]] || fail "not two differences: $(cat "$WORK/out")"
    grep -q "^differs: file config.json has the sha256 " "$WORK/out" || fail "config.json is not named"
    grep -q "^differs: file .* is missing" "$WORK/out" || fail "the missing file is not named"
    expect_code 0 $launcher "$SHARDWELD" verify "$WORK/hashed" --report "$report"
done
sed 's|"name": "config.json"|"name": "../report.json"|' "$report" >"$WORK/odd.json"
expect_code 4 "$SHARDWELD" verify "$WORK/hashed" --report "$WORK/odd.json" --sha256 && expect_text "outside of the model: ../report.json"
rm -rf "$WORK/plain"
merge_case "$llama" "$WORK/plain" 0 --report "$WORK/plain.json"
expect_code 2 "$SHARDWELD" verify "$WORK/plain" --report "$WORK/plain.json" --sha256 && expect_text "holds no sha256"
expect_code 2 "$SHARDWELD" merge --local_dir "$llama/source" --target_dir "$WORK/none" --sha256 --report none && expect_text "--report FILE"

finish

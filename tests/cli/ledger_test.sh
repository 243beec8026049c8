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
    checks=$((checks + 1))
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
checks=$((checks + 1))
((n_cases > 60)) || fail "only $n_cases checkpoints were looked at"

# Adapters in every way: split, folded, dropped; also those with modules trained as a whole and biases.
for case in fsdp2_lora_w2_fp32_qwen2 lora_dora_embed_w2 lora_patterns_bias_w1; do
    for how in split fold drop; do
        rm -rf "$WORK/out_$how"
        expect_code 0 "$SHARDWELD" merge --local_dir "$data/torch/$case/source" --target_dir "$WORK/out_$how" --lora "$how" --report "$report" -q
        checks=$((checks + 1))
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
checks=$((checks + 1))
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
expect_code 2 "$SHARDWELD" plan --local_dir "$data/torch/fsdp1_w2_fp32_llama/source" --exclude '(' && expect_text "no regular expression"

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
            checks=$((checks + 1))
            same_fields "$WORK/one.json" "$report" || fail "$case: other checksums or ledger with $ranks ranks, $strategy"
        done
    done
done

# sha256 of every file, as sha256sum has it; verify compares them.
llama="$data/megatron/llama-tp4-legacy-bf16"
for ranks in 0 3; do
    rm -rf "$WORK/hashed"
    merge_case "$llama" "$WORK/hashed" "$ranks" --report "$report" --sha256 --max_shard_size 100KB
    checks=$((checks + 1))
    python3 -c 'import json, sys
for file in json.load(open(sys.argv[1]))["files"]:
    print(file["sha256"] + "  " + file["name"])' "$report" >"$WORK/sums"
    (cd "$WORK/hashed" && find . -type f | sed 's|^\./||' | sort | xargs sha256sum) | cmp -s - "$WORK/sums" || fail "$ranks ranks: not the sums of sha256sum"
    expect_code 0 mpirun -n 2 "$SHARDWELD" verify "$WORK/hashed" --report "$report" --sha256
    checks=$((checks + 1))
    grep -q "^sha256 .*files as the report says" "$WORK/out" || fail "verify: $(cat "$WORK/out")"
done
echo >>"$WORK/hashed/config.json"
rm "$WORK/hashed/generation_config.json" 2>/dev/null || rm "$WORK/hashed/tokenizer.json"
touch "$WORK/hashed/README.md"
for launcher in "" "mpirun -n 3"; do
    expect_code 13 $launcher "$SHARDWELD" verify "$WORK/hashed" --report "$report" --sha256
    checks=$((checks + 3))
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
expect_code 2 "$SHARDWELD" merge --local_dir "$llama/source" --target_dir "$WORK/none" --sha256 && expect_text "--report FILE"

# CRC-32 of torch's records: a flipped bit is found before anything is written, by whoever reads it.
# flipped CASE FILE RECORD: a copy of a checkpoint with one bit of a record changed, in $WORK/copy.
flipped() {
    rm -rf "$WORK/copy"
    cp -r "$data/$1" "$WORK/copy"
    python3 - "$WORK/copy/source/$2" "$3" <<'P' || fail "cannot flip a bit of $2"
import struct, sys, zipfile
path, record = sys.argv[1:]
entry = next(e for e in zipfile.ZipFile(path).infolist() if e.filename.endswith("/" + record))
blob = bytearray(open(path, "rb").read())
name, extra = struct.unpack("<HH", blob[entry.header_offset + 26:entry.header_offset + 30])
blob[entry.header_offset + 30 + name + extra + entry.file_size // 2] ^= 4
open(path, "wb").write(blob)
P
}
for case in torch/fsdp1_w2_fp32_llama megatron/llama-tp4-legacy-bf16 megatron/qwen2-tp2-pp2-torchdist-bf16 torch/dcp_w2_bf16_qwen2; do
    rm -rf "$WORK/checked"
    merge_case "$data/$case" "$WORK/checked" 2 --check_crc --report "$report"
    checks=$((checks + 1))
    python3 -c 'import json, sys
phase = next(p for p in json.load(open(sys.argv[1]))["phases"] if p["name"] == "check_crc")
sys.exit(phase["bytes_read"] == 0)' "$report" || fail "$case: no checksum was looked at"
done
flipped torch/fsdp1_w2_fp32_llama model_world_size_2_rank_1.pt data/3
for launcher in "" "mpirun -n 3"; do
    rm -rf "$WORK/none"
    expect_code 4 $launcher "$SHARDWELD" merge --local_dir "$WORK/copy/source" --target_dir "$WORK/none" --check_crc -q
    expect_text "model_world_size_2_rank_1.pt: record "
    expect_text "/data/3 ("
    expect_text "has the CRC-32"
    expect_absent "$WORK/none"
    expect_code 0 $launcher "$SHARDWELD" merge --local_dir "$WORK/copy/source" --target_dir "$WORK/none" -q
done
# One byte of the embedding: only a checksum can tell.
rm -rf "$WORK/copy"
cp -r "$data/torch/fsdp1_w2_fp32_llama" "$WORK/copy"
printf '\237' | dd of="$WORK/copy/source/model_world_size_2_rank_1.pt" bs=1 seek=12388 conv=notrunc status=none
for launcher in "" "mpirun -n 2"; do
    rm -rf "$WORK/none"
    expect_code 4 $launcher "$SHARDWELD" merge --local_dir "$WORK/copy/source" --target_dir "$WORK/none" --check_crc -q
    expect_text "model_world_size_2_rank_1.pt: record model_world_size_2_rank_1/data/0 (7680 bytes at 12288, tensor model.embed_tokens.weight) has the CRC-32 8dcfa62c, the file says 5d0fa3d1"
    expect_absent "$WORK/none"
done
# changed CASE PYTHON: a copy of a checkpoint; PYTHON changes the bytes b of one of its torch files.
changed() {
    case="$1"
    rm -rf "$WORK/copy"
    cp -r "$data/$1" "$WORK/copy"
    copied="$WORK/copy/source"
    [[ -d "$copied" ]] || copied="$WORK/copy"
    python3 - "$copied" "$2" <<'P' || fail "cannot change $1"
import pathlib, re, sys
for path in sorted((p for p in pathlib.Path(sys.argv[1]).rglob("*") if p.suffix in (".pt", ".bin", ".distcp")), reverse=True):
    b = bytearray(path.read_bytes())
    exec(sys.argv[2])
    if b != path.read_bytes():
        path.write_bytes(b)
        sys.exit()
sys.exit("nothing was changed")
P
}

# crc_only CODE TEXT: $WORK/copy is merged without --check_crc, and ends so with it.
crc_only() {
    local config=() launcher code="$1"
    [[ ! -d "$WORK/copy/hf" ]] || config=(--hf_config "$WORK/copy/hf")
    [[ "$case" != hf/* ]] || config+=(--backend hf)
    for launcher in "" "mpirun -n 2"; do
        rm -rf "$WORK/none"
        expect_code 0 $launcher "$SHARDWELD" merge --local_dir "$copied" --target_dir "$WORK/none" "${config[@]}" -q
        rm -rf "$WORK/none"
        expect_code "$code" $launcher "$SHARDWELD" merge --local_dir "$copied" --target_dir "$WORK/none" --check_crc "${config[@]}" || continue
        expect_text "$2"
        ((code == 0)) || expect_absent "$WORK/none"
    done
}

# What describes the tensors: two names change places; in every format, the name of a device, which nothing depends on.
changed torch/fsdp1_w2_fp32_llama 'k, v = (b.index(b"layers.0.self_attn.%c_proj" % c) + 19 for c in b"kv"); b[k], b[v] = b[v], b[k]'
crc_only 4 "record model_world_size_2_rank_1/data.pkl has the CRC-32 e148a11c, the file says bd013134"
expect_text "model_world_size_2_rank_1.pt]"
for case in torch/fsdp2_w12_bf16_qwen2 megatron/llama-tp4-legacy-bf16 megatron/qwen2-tp2-pp2-torchdist-bf16 torch/dcp_w2_bf16_qwen2 hf/qwen2-tied-bin-zip-2-files; do
    changed "$case" 'for m in re.finditer(rb"X.\0\0\0(cpu|cuda)", bytes(b), re.S): b[m.start(1)] = 120'
    crc_only 4 "data.pkl has the CRC-32"
done
# A checksum that is not stated is not compared, and counted.
changed torch/fsdp1_w2_fp32_llama 'i = b.rindex(b"PK\1\2", 0, b.rindex(b"_rank_1/data/3")); b[i + 16:i + 20] = bytes(4)'
crc_only 0 "the CRC-32 of 41 records ("
expect_text ") and of what describes them is right; 1 state none"
changed torch/fsdp1_w2_fp32_llama 'i = b.rindex(b"PK\1\2", 0, b.rindex(b"_rank_1/byteorder")); b[i + 16] ^= 1'
crc_only 4 "record model_world_size_2_rank_1/byteorder has the CRC-32"

hf="$data/torch/dcp_hf_w2_bf16_qwen2"
expect_code 0 "$SHARDWELD" merge --local_dir "$hf/source" --hf_config "$hf/hf" --target_dir "$WORK/shards" --check_crc
expect_text "no file states a CRC-32"
finish

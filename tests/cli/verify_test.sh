#!/usr/bin/env bash
# verify from the outside: sound outputs are accepted, each broken rule and each changed tensor is named.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
llama="$TESTS/data/megatron/llama-tp4-legacy-bf16"

merge_case "$llama" "$WORK/single" 0 --report "$WORK/single.json"
merge_case "$llama" "$WORK/sharded" 2 --report "$WORK/sharded.json" --max_shard_size 100KB
good="$WORK/copy"

fresh() {
    rm -rf "$good"
    cp -r "$WORK/sharded" "$good"
}

# Without a report, said plainly; with one, at any number of ranks; the report of another split has the same checksums.
expect_code 0 "$SHARDWELD" verify "$WORK/single"
expect_out "NOT CHECKED"
expect_text "contents were not checked"
expect_code 0 "$SHARDWELD" verify "$WORK/single" --report none
expect_out "NOT CHECKED"
expect_text "--report none: the tensors' contents were not checked"
expect_code 2 "$SHARDWELD" verify "$WORK/single" --sha256
expect_text "--sha256 needs a report"
expect_code 0 "$SHARDWELD" verify "$WORK/single" --report "$WORK/sharded.json"
for ranks in 1 3; do
    expect_code 0 mpirun -n "$ranks" "$SHARDWELD" verify "$WORK/sharded" --report "$WORK/single.json"
    expect_out "all 39 tensors match the report's checksums (root $(python3 -c 'import json,sys;print(json.load(open(sys.argv[1]))["root"])' "$WORK/single.json"))"
done

# A report that is kept in the directory is found there, by `report` too; it goes with the model that it is of, and no loader minds it.
merge_case "$llama" "$WORK/kept" 2 --sha256
for launcher in "" "mpirun -n 3"; do
    expect_code 0 $launcher "$SHARDWELD" verify "$WORK/kept" --sha256
    expect_out "6 files match the report"
done
expect_code 0 "$SHARDWELD" report "$WORK/kept" && expect_out "39 tensors in"
expect_code 0 "$SHARDWELD" check "$WORK/kept" --target vllm
expect_code 0 "$SHARDWELD" diff "$WORK/kept" "$WORK/single"
expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$WORK/kept" --target_dir "$WORK/again" -q --strict
expect_code 13 "$SHARDWELD" verify "$WORK/kept" --report "$(merge_case "$llama" "$WORK/cast" 0 --dtype fp32 >/dev/null; echo "$WORK/cast/shardweld_report.json")"
merge_case "$llama" "$WORK/kept" 0 --overwrite --report none
expect_absent "$WORK/kept/shardweld_report.json"
(cd "$WORK/kept" && merge_case "$llama" . 0 --overwrite && [[ -s shardweld_report.json ]] && merge_case "$llama" . 0 --overwrite --report none) || fail "merges into the current directory"
expect_absent "$WORK/kept/shardweld_report.json"

# check: whether it would load, and where it would not.
expect_code 0 "$SHARDWELD" check "$WORK/sharded"
expect_out "OK: $WORK/sharded should load in transformers"
expect_code 14 "$SHARDWELD" check "$WORK/sharded" --target vllm --tp 3
expect_out "attention heads do not divide by 3 devices"
expect_out "NOT OK: vLLM would refuse $WORK/sharded, or load it wrongly, with --tp 3" && expect_text "vLLM would refuse this model, or load it wrongly, with --tp 3"
fresh
cp "$WORK/single/model.safetensors" "$good"
expect_code 14 "$SHARDWELD" check "$good"
expect_out "a stale file, which is loaded in their place"
fresh
sed -i 's/"intermediate_size": \([0-9]*\)/"intermediate_size": 1\1/' "$good/config.json"
expect_code 14 "$SHARDWELD" check "$good"
expect_out "names  shapes are not those of config.json: model.layers.0.mlp.down_proj.weight"
expect_code 3 "$SHARDWELD" check "$WORK/none"
expect_code 2 "$SHARDWELD" check "$good" --target onnx

# One flipped bit of a tensor: the tensor is named, at any number of ranks, and nothing else.
fresh
shard="$good/model-00002-of-00004.safetensors"
[[ -f "$shard" ]] || fail "there is no $shard: $(ls "$good")"
python3 - "$shard" >"$WORK/name" <<'PYTHON'
import json, struct, sys
blob = bytearray(open(sys.argv[1], "rb").read())
(length,) = struct.unpack("<Q", blob[:8])
blob[-1] ^= 1
open(sys.argv[1], "wb").write(blob)
header = json.loads(blob[8:8 + length])
header.pop("__metadata__")
print(max(header, key=lambda name: header[name]["data_offsets"][1]))
PYTHON
expect_code 0 "$SHARDWELD" verify "$good"
for launcher in "" "mpirun -n 3"; do
    expect_code 13 $launcher "$SHARDWELD" verify "$good" --report "$WORK/sharded.json"
    expect_out "differs: $(cat "$WORK/name") has the checksum"
    [[ "$(grep -c '^differs' "$WORK/out")" == 1 ]] || fail "more than one tensor differs"
done

# broken CODE TEXT: the copy breaks a rule.
broken() {
    expect_code "$1" "$SHARDWELD" verify "$good"
    expect_text "$2"
}
index="$good/model.safetensors.index.json"
fresh && truncate -s -1 "$shard" && broken 4 "model-00002-of-00004.safetensors: malformed safetensors header"
fresh && printf x >>"$shard" && broken 4 "model-00002-of-00004.safetensors"
fresh && rm "$shard" && broken 3 "model-00002-of-00004.safetensors is missing, though the index names it"
mkfifo "$WORK/fifo"
fresh && ln -sf "$WORK/fifo" "$shard" && broken 4 "model-00002-of-00004.safetensors"
fresh && ln -sf absent "$shard" && broken 3 "model-00002-of-00004.safetensors"
fresh && ln -sf "$(basename "$shard")" "$shard" && broken 4 "model-00002-of-00004.safetensors"
fresh && rm "$index" && broken 3 "model.safetensors.index.json is missing"
fresh && cp "$WORK/single/model.safetensors" "$good" && broken 4 "model.safetensors is not in the index"
fresh && sed -i '/"lm_head.weight"/s/model-00001/model-00002/' "$index" && broken 4 "tensor lm_head.weight is in model-00001-of-00004.safetensors, the index says model-00002-of-00004.safetensors"
fresh && sed -i 's/"total_size": [0-9]*/"total_size": 7/' "$index" && broken 4 "the index's total_size is 7, the tensors have"
fresh && sed -i '/"lm_head.weight"/d' "$index" && broken 4 "tensor lm_head.weight of model-00001-of-00004.safetensors is not in the index"
fresh && sed -i 's/"model.norm.weight"/"no.such.weight"/' "$index" && broken 4 "the index names the tensor no.such.weight"
fresh && sed -i 's|model-00001-of-00004.safetensors|../x.safetensors|' "$index" && broken 4 "which leaves the directory"
fresh && sed -i 's|model-00001-of-00004.safetensors|x/x.safetensors|' "$index" && broken 4 "which is not a plain name"
fresh && echo "{" >"$index" && broken 4 "model.safetensors.index.json is not a JSON object"
fresh && rm "$good/config.json" && broken 3 "config.json is missing"
fresh && echo "{" >"$good/config.json" && broken 4 "config.json"
fresh && sed -i 's/bfloat16/float32/' "$good/config.json" && broken 4 "config.json says dtype float32, most tensors are bfloat16"
rm -rf "$good" && cp -r "$WORK/single" "$good" && cp "$WORK/sharded/model-00001-of-00004.safetensors" "$good" && broken 4 "lies beside model.safetensors"
rm "$good"/model*.safetensors && broken 3 "holds neither model.safetensors nor"
touch "$good/pytorch_model.bin" && broken 5 "verify reads safetensors only"

# Reports that cannot serve.
expect_code 3 "$SHARDWELD" verify "$WORK/single" --report "$WORK/absent.json"
echo "{}" >"$WORK/odd.json"
expect_code 4 "$SHARDWELD" verify "$WORK/single" --report "$WORK/odd.json" && expect_text "is not a report of a merge"
head -c 40 "$WORK/single.json" >"$WORK/odd.json"
expect_code 4 "$SHARDWELD" verify "$WORK/single" --report "$WORK/odd.json" && expect_text "is not a report of a merge: it is not JSON"
sed 's/"schema": 1/"schema": 2/' "$WORK/single.json" >"$WORK/odd.json"
expect_code 5 "$SHARDWELD" verify "$WORK/single" --report "$WORK/odd.json"
python3 - "$WORK/single.json" "$WORK/odd.json" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
report["tensors"].append({**report["tensors"].pop(0), "name": "more.weight"})
report["tensors"][5]["shape"] = [1, 2, 3]
json.dump(report, open(sys.argv[2], "w"))
PYTHON
expect_code 13 "$SHARDWELD" verify "$WORK/single" --report "$WORK/odd.json"
expect_out "more.weight is missing"
expect_out "the report says bfloat16 [1, 2, 3]"
expect_out "is not in the report"
finish

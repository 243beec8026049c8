#!/usr/bin/env bash
# test and diff from the outside: what is found, where, and the same at every number of ranks.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

edit() {
    python3 "$TESTS/support/edit_safetensors.py" "$@" || fail "cannot edit: $*"
}

# at_all_ranks CODE COMMAND...: at 0 (no mpirun), 1 and 3 ranks, with the same output.
at_all_ranks() {
    local code="$1" ranks
    shift
    expect_code "$code" "$@"
    cp "$WORK/out" "$WORK/first"
    for ranks in 1 3; do
        expect_code "$code" mpirun -n "$ranks" "$@"
        cmp -s "$WORK/first" "$WORK/out" || fail "another result at $ranks ranks: $* $(diff "$WORK/first" "$WORK/out" | head -5)"
    done
}

llama="$TESTS/data/megatron/llama-tp4-legacy-bf16"
tested=(--local_dir "$llama/source" --hf_config "$llama/hf" -q)
proj=model.layers.0.self_attn.q_proj.weight
reference="$WORK/reference"
weights="$reference/model.safetensors"

fresh() {
    rm -rf "$reference"
    cp -r "$llama/expected" "$reference"
    chmod -R u+w "$reference"
}

# What a merge would write, without writing it.
mkdir "$WORK/empty" && cd "$WORK/empty"
at_all_ranks 0 "$SHARDWELD" test "${tested[@]}" --test_hf_dir "$llama/expected" --strict_dtype --atol 0 --rtol 0
expect_out "identical: all 39 tensors match bit for bit"
[[ -z "$(ls -A "$WORK/empty")" ]] || fail "test wrote $(ls -A "$WORK/empty")"
cd "$WORK"
# How far they are, with both models' metadata.
expect_code 0 "$SHARDWELD" test "${tested[@]}" --test_hf_dir "$llama/expected" --progress json
for phase in "reading metadata of expected" "reading metadata" "comparing tensors"; do
    expect_text "{\"event\":\"progress\",\"phase\":\"$phase\",\"done\":"
done
expect_code 0 "$SHARDWELD" diff "$llama/expected" "$llama/expected" -q --progress json
expect_text '"phase":"reading metadata of expected","done":0,"total":1'
expect_text '"phase":"comparing tensors"'

# Everything at once: a value, a shape, a missing and an extra tensor.
fresh
edit "$weights" flip "$proj" 301 1
edit "$weights" drop model.norm.weight
edit "$weights" copy lm_head.weight other.weight
edit "$weights" reshape model.layers.1.self_attn.q_proj.weight 32,128
for strategy in direct collective; do
    at_all_ranks 13 "$SHARDWELD" test "${tested[@]}" --test_hf_dir "$reference" --strategy "$strategy" --memory_limit 2MiB
done
expect_text "4 of 40 tensors differ: 1 missing, 1 extra, 1 in shape, 1 in values"
expect_out "$proj"
# Byte 301 is the upper one of element 150: row 2, column 22 of 64.
grep -qE "^$proj +values +bfloat16 \[64, 64\] +bfloat16 \[64, 64\] +1 of 4096 .*\[2, 22\] .*\[2, 22\]$" "$WORK/out" || fail "row: $(grep "^$proj" "$WORK/out")"
grep -qE "^model.norm.weight +extra +bfloat16 \[64\] +-$" "$WORK/out" || fail "no row of the extra tensor"
grep -qE "^other.weight +missing +- +bfloat16 \[251, 64\]$" "$WORK/out" || fail "no row of the missing tensor"
grep -qE "^model.layers.1.self_attn.q_proj.weight +shape +bfloat16 \[64, 64\] +bfloat16 \[32, 128\]$" "$WORK/out" || fail "no row of the shape"
expect_out "4 of 40 tensors differ: 1 missing, 1 extra, 1 in shape, 1 in values; 36 match, all bit for bit"
expect_code 13 "$SHARDWELD" test "${tested[@]}" --test_hf_dir "$reference" --json
python3 - "$WORK/out" "$proj" <<'PYTHON' || fail "JSON"
import json, sys
found = json.load(open(sys.argv[1]))
row = next(t for t in found["tensors"] if t["name"] == sys.argv[2])
assert found["result"] == "different" and found["n_equal"] == 36 and len(found["tensors"]) == 40, found["result"]
assert row["result"] == "values" and row["different"] == 1 and row["different_bits"] == 1 and row["elements"] == 4096
assert row["absolute"]["at"] == [2, 22] and row["relative"]["at"] == [2, 22]
PYTHON

# Just inside and just outside: bf16 1.0 (3f80) against 1.0078125 (3f81), a distance of 2^-7 = 0.0078125.
fresh
cp -r "$reference" "$WORK/other"
edit "$WORK/other/model.safetensors" put model.norm.weight 5 803f
edit "$weights" put model.norm.weight 5 813f
expect_code 0 "$SHARDWELD" diff "$WORK/other" "$reference" --atol 0.0078125 --rtol 0
expect_out "equal: all 39 tensors match within the tolerance, 38 of them bit for bit"
expect_code 13 "$SHARDWELD" diff "$WORK/other" "$reference" --atol 0.0078124 --rtol 0
expect_code 13 "$SHARDWELD" diff "$WORK/other" "$reference"
expect_code 0 "$SHARDWELD" diff "$WORK/other" "$reference" --atol 0 --rtol 0.00776
expect_code 13 "$SHARDWELD" diff "$WORK/other" "$reference" --atol 0 --rtol 0.00775

# NaN against a number differs whatever the tolerance; NaN against NaN does not.
edit "$weights" put model.norm.weight 5 c07f
expect_code 13 "$SHARDWELD" diff "$WORK/other" "$reference" --atol 1e30 --rtol 1e30
expect_out "1 of 64, 1 NaN"
edit "$WORK/other/model.safetensors" put model.norm.weight 5 c1ff
expect_code 0 "$SHARDWELD" diff "$WORK/other" "$reference"
expect_out "equal: all 39 tensors match within the tolerance, 38 of them bit for bit"

# Another dtype: compared in the narrower one, a difference only when asked for.
fresh
edit "$weights" widen
edit "$weights" put model.norm.weight 0 0100803f # fp32 1 + 2^-23: bf16 1
edit "$WORK/other/model.safetensors" put model.norm.weight 0 803f
edit "$WORK/other/model.safetensors" put model.norm.weight 5 803f
edit "$weights" put model.norm.weight 5 0000803f
expect_code 0 "$SHARDWELD" diff "$WORK/other" "$reference" --atol 0 --rtol 0
expect_out "39 tensors have another dtype in the reference: compared as bfloat16"
expect_out "equal: all 39 tensors match within the tolerance, none of them bit for bit"
expect_code 13 "$SHARDWELD" diff "$WORK/other" "$reference" --strict_dtype
expect_out "39 of 39 tensors differ: 39 in dtype"
fresh
edit "$weights" widen
at_all_ranks 0 "$SHARDWELD" test "${tested[@]}" --test_hf_dir "$reference"
expect_code 0 "$SHARDWELD" test "${tested[@]}" --test_hf_dir "$reference" --dtype fp32 --strict_dtype
expect_out "identical: all 39 tensors match bit for bit"

# A tied head, in torch files: zip archives behind an index, and one of the form before zip.
tied="$TESTS/data/megatron/qwen2-tied-tp2-zarr"
merge_case "$tied" "$WORK/tied" 0
for name in qwen2-tied-bin-zip-2-files qwen2-tied-bin-prezip; do
    at_all_ranks 0 "$SHARDWELD" test --local_dir "$tied/source" --hf_config "$tied/hf" -q --test_hf_dir "$TESTS/data/hf/$name" --strict_dtype
    expect_out "identical: all 27 tensors match bit for bit"
    expect_out "note: only the reference has lm_head.weight; the other model ties it to model.embed_tokens.weight"
done
expect_code 0 "$SHARDWELD" diff "$TESTS/data/hf/qwen2-tied-bin-prezip" "$WORK/tied"
expect_out "note: only the tested model has lm_head.weight; the other model ties it to model.embed_tokens.weight"
rm -rf "$WORK/other" && cp -r "$WORK/tied" "$WORK/other"
edit "$WORK/other/model.safetensors" copy model.embed_tokens.weight lm_head.weight
edit "$WORK/other/model.safetensors" flip lm_head.weight 1 1
expect_code 13 "$SHARDWELD" test --local_dir "$tied/source" --hf_config "$tied/hf" -q --test_hf_dir "$WORK/other"
expect_text "1 of 27 tensors differ: 1 missing"

# Entries of __metadata__ in another order, as safetensors writes them from process to process: files of other bytes, and the same model.
for order in 1 -1; do
    python3 - "$WORK/tied/model.safetensors" "$WORK/order$order" $order <<'P' || fail "cannot write metadata"
import json, os, struct, sys
blob = open(sys.argv[1], "rb").read()
n = 8 + struct.unpack("<Q", blob[:8])[0]
header = json.loads(blob[8:n])
header["__metadata__"] = dict([("format", "pt"), ("a", "1"), ("b", "2")][::int(sys.argv[3])])
text = json.dumps(header).encode()
os.mkdir(sys.argv[2])
open(sys.argv[2] + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + blob[n:])
P
done
! cmp -s "$WORK"/order*/model.safetensors || fail "the order of metadata is the same"
expect_code 0 "$SHARDWELD" diff "$WORK/order1" "$WORK/order-1"
expect_out "match bit for bit"

# Tensors larger than a rank reads at once; the last element, and config.json for information.
for name in a b; do
    mkdir -p "$WORK/$name"
    edit "$WORK/$name/model.safetensors" make large F32 3000001 whole I64 400000 narrow BF16 1500000
    echo "{\"model_type\": \"$name\", \"n\": 1}" >"$WORK/$name/config.json"
done
edit "$WORK/b/model.safetensors" put large 3000000 0000003f
edit "$WORK/b/model.safetensors" put whole 399999 ffffffffffffff7f
at_all_ranks 13 "$SHARDWELD" diff "$WORK/a" "$WORK/b" --atol 1e9
expect_text "1 of 3 tensors differ: 1 in values"
expect_out "[399999]"
expect_out '"a"'
expect_out "2 match, 1 of them bit for bit"

# Nothing to compare with.
expect_code 3 "$SHARDWELD" diff "$WORK/a" "$WORK/absent"
expect_code 3 mpirun -n 3 "$SHARDWELD" test "${tested[@]}" --test_hf_dir "$WORK/absent"
expect_code 2 "$SHARDWELD" test "${tested[@]}" --test_hf_dir "$llama/expected" --memory_limit 1000KiB && expect_text "at least 1MiB"
truncate -s -1 "$weights"
expect_code 4 "$SHARDWELD" test "${tested[@]}" --test_hf_dir "$reference"
finish

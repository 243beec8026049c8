#!/usr/bin/env bash
# What is said of the values that a merge writes: NaNs, infinities, matrices of one value, the distance to a base.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
odd="$WORK/nan_inf_values"
llama="$WORK/llama-tp4-legacy-bf16"
cp -r "$TESTS/data/torch/nan_inf_values" "$TESTS/data/megatron/llama-tp4-legacy-bf16" "$WORK"
with_tokenizer "$odd" "$llama"
report="$WORK/report.json"

# report_says PYTHON-EXPRESSION over the report r
report_says() {
    python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$report" "$1" ||
        fail "not $1 in: $(python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); print(r["sanity"], r["base"], r["warnings"])' "$report")"
}

# merge_hf RANKS DIR [options]: merges a model directory into $WORK/result, with a report.
merge_hf() {
    local ranks="$1" launcher=()
    ((ranks == 0)) || launcher=(mpirun -n "$ranks")
    rm -rf "$WORK/result"
    expect_code "${code:-0}" "${launcher[@]}" "$SHARDWELD" merge --backend hf --local_dir "$2" --target_dir "$WORK/result" --report "$report" --restart "${@:3}"
}

edit() {
    python3 "$TESTS/support/edit_safetensors.py" "$@" || fail "cannot edit $*"
}

# NaNs and infinities of a real checkpoint, counted by Python in the output; the same at any number of ranks.
first=""
for ranks in 0 2 3; do
    for strategy in direct collective; do
        rm -rf "$WORK/odd"
        merge_case "$odd" "$WORK/odd" "$ranks" --report "$report" --strategy "$strategy"
        found="$(python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); print(r["sanity"], r["warnings"])' "$report")"
        first="${first:-$found}"
        [[ "$found" == "$first" ]] || fail "other findings with $ranks ranks, $strategy: $found"
    done
done
report_says '[w["code"] for w in r["warnings"] if w["code"] in ("nan_values", "inf_values", "all_zero", "constant")] == ["nan_values", "inf_values"]'
python3 - "$WORK/odd" "$report" <<'P' || fail "Python counts other NaNs and infinities"
import glob, json, struct, sys
found = {}
for path in glob.glob(sys.argv[1] + "/*.safetensors"):
    blob = open(path, "rb").read()
    (length,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8:8 + length])
    header.pop("__metadata__", None)
    for name, entry in header.items():
        data = blob[8 + length:][slice(*entry["data_offsets"])]
        assert entry["dtype"] == "F32", entry
        values = struct.unpack("<%df" % (len(data) // 4), data)
        nan, inf = sum(v != v for v in values), sum(abs(v) == float("inf") for v in values)
        if nan or inf:
            found[name] = (nan, inf)
told = {t["name"]: (t["nan"], t["inf"]) for t in json.load(open(sys.argv[2]))["sanity"]["tensors"]}
assert found and told == found, (told, found)
P
rm -rf "$WORK/odd"
# --strict tells all warnings, in one error and in the report, and nothing appears.
for ranks in 0 2; do
    launcher=()
    ((ranks == 0)) || launcher=(mpirun -n "$ranks")
    expect_code 14 "${launcher[@]}" "$SHARDWELD" merge --local_dir "$odd/source" --target_dir "$WORK/odd" --strict --report "$report" -q
    for text in "error: 2 warnings:" " NaNs: " "(nan_values, an error under --strict)" " infinities: " "(inf_values, an error under --strict)"; do
        expect_text "$text"
    done
    expect_absent "$WORK/odd"
    report_says '[w["code"] for w in r["warnings"]] == ["nan_values", "inf_values"] and r["exit"]["code"] == 14 and r["sanity"]["checked"]'
    rm -rf "$WORK"/.odd.shardweld-partial
done

# A cast that overflows makes infinities.
merge_case "$llama" "$WORK/base" 0 --report "$report"
report_says 'r["sanity"] == {"checked": True, "tensors": []} and r["base"] is None'
weights="model.safetensors"
cp -r "$WORK/base" "$WORK/large"
edit "$WORK/large/$weights" put model.layers.1.mlp.up_proj.weight 5 807f
merge_hf 2 "$WORK/large" --dtype fp16
report_says 'r["sanity"]["tensors"] == [{"name": "model.layers.1.mlp.up_proj.weight", "nan": 0, "inf": 1, "all_zero": False, "constant": False, "mostly_zero": False}]'
merge_hf 0 "$WORK/base" --dtype fp16
report_says 'r["sanity"]["tensors"] == []'

# Matrices of one value, at any number of ranks; norms of ones and biases of zeros are normal.
cp -r "$WORK/base" "$WORK/flat"
python3 - "$WORK/flat/$weights" "$TESTS/support" <<'P' || fail "cannot flatten"
import sys
sys.path.insert(0, sys.argv[2])
import edit_safetensors as files
tensors = files.read(sys.argv[1])
for name, bits in {"model.layers.0.mlp.up_proj.weight": b"\0\0", "model.layers.1.self_attn.q_proj.weight": b"\x80\x3f",
                   "model.layers.2.input_layernorm.weight": b"\x80\x3f", "model.norm.weight": b"\0\0"}.items():
    tensors[name][2] = bytearray(bits * (len(tensors[name][2]) // 2))
files.write(sys.argv[1], tensors)
P
for ranks in 0 3; do
    merge_hf "$ranks" "$WORK/flat"
    expect_text "1 written tensor is all zeros: model.layers.0.mlp.up_proj.weight"
    expect_text "1 written tensor holds one value only: model.layers.1.self_attn.q_proj.weight"
    report_says '[(t["name"], t["all_zero"], t["constant"]) for t in r["sanity"]["tensors"]] == [("model.layers.0.mlp.up_proj.weight", True, False), ("model.layers.1.self_attn.q_proj.weight", False, True)]'
done

# The base: equal, changed, of another shape, with other names.
for ranks in 0 3; do
    rm -rf "$WORK/again"
    merge_case "$llama" "$WORK/again" "$ranks" --report "$report" --base "$WORK/base"
    report_says '[w["code"] for w in r["warnings"]] == ["equals_base"] and (r["base"]["compared"], r["base"]["equal"], r["base"]["max_tensor"]) == (39, 39, None)'
done
cp -r "$WORK/base" "$WORK/trained"
edit "$WORK/trained/$weights" put model.layers.1.mlp.up_proj.weight 5 0040
edit "$WORK/trained/$weights" put model.norm.weight 0 803e
for ranks in 0 2; do
    merge_hf "$ranks" "$WORK/trained" --base "$WORK/base"
    expect_text "2 of 39 tensors differ, at most by "
    report_says 'r["warnings"] == [] and (r["base"]["compared"], r["base"]["equal"], r["base"]["max_tensor"]) == (39, 37, "model.layers.1.mlp.up_proj.weight") and 1.5 < r["base"]["max_abs"] < 2.5'
done
rm -rf "$WORK/trained"
cp -r "$WORK/base" "$WORK/trained"
edit "$WORK/trained/$weights" drop model.layers.3.mlp.up_proj.weight
edit "$WORK/trained/$weights" copy model.norm.weight model.other.weight
edit "$WORK/trained/$weights" reshape model.layers.0.mlp.up_proj.weight 6144
merge_hf 2 "$WORK/base" --base "$WORK/trained"
expect_text "only in the result: model.layers.3.mlp.up_proj.weight; only in the base: model.other.weight"
report_says '(r["base"]["extra"], r["base"]["missing"], r["base"]["shapes"]) == (["model.layers.3.mlp.up_proj.weight"], ["model.other.weight"], ["model.layers.0.mlp.up_proj.weight"])'
report_says '[(w["code"], w["tensor"]) for w in r["warnings"]] == [("base_differs_shape", "model.layers.0.mlp.up_proj.weight"), ("base_missing", "model.other.weight"), ("base_extra", "model.layers.3.mlp.up_proj.weight")]'
expect_text "1 tensor of the base is not in the result: model.other.weight; was it lost?"

# What is left out on purpose is not missed.
merge_hf 0 "$WORK/base" --base "$WORK/trained" --include '\.mlp\.|norm' --exclude 'other|layers\.[03]\.'
report_says '(r["base"]["extra"], r["base"]["missing"]) == ([], []) and [w["code"] for w in r["warnings"]] == ["equals_base"]'
code=14 merge_hf 0 "$WORK/base" --base "$WORK/trained" --exclude 'layers\.[03]\.' --strict
expect_text "base_missing, an error under --strict"

# A head: missed where nothing ties it to the embedding, also when the config does not say; not where it is tied.
cp -r "$WORK/base" "$WORK/headless"
edit "$WORK/headless/$weights" drop lm_head.weight
sed -i '/tie_word_embeddings/d' "$WORK/headless/config.json"
merge_hf 2 "$WORK/headless" --base "$WORK/base" --names module
report_says 'r["base"]["missing"] == ["lm_head.weight"] and "base_missing" in [w["code"] for w in r["warnings"]]'
merge_hf 2 "$WORK/headless" --base "$WORK/base" --tie-word-embedding
report_says '(r["base"]["missing"], r["base"]["compared"]) == ([], 39) and r["warnings"] == []'

# A vector that became zeros: told only beside a base that has something there.
cp -r "$WORK/base" "$WORK/killed"
python3 - "$WORK/killed/$weights" "$TESTS/support" <<'P' || fail "cannot kill the norm"
import sys
sys.path.insert(0, sys.argv[2])
import edit_safetensors as files
tensors = files.read(sys.argv[1])
tensors["model.norm.weight"][2] = bytearray(len(tensors["model.norm.weight"][2]))
files.write(sys.argv[1], tensors)
P
merge_hf 0 "$WORK/killed"
report_says 'r["warnings"] == [] and r["sanity"]["tensors"] == []'
for ranks in 0 3; do
    merge_hf "$ranks" "$WORK/killed" --base "$WORK/base"
    report_says '[(w["code"], w["tensor"]) for w in r["warnings"]] == [("all_zero", "model.norm.weight")]'
done
merge_hf 2 "$WORK/killed" --base "$WORK/killed"
report_says '[w["code"] for w in r["warnings"]] == ["equals_base"]'
code=14 merge_hf 0 "$WORK/base" --base "$WORK/base" --strict
expect_text "0 of 39 tensors differ"
expect_text "no tensor differs from the base"
expect_text "equals_base"
expect_absent "$WORK/result"
report_says 'r["exit"]["code"] == 14 and r["base"]["equal"] == 39'
code=3 merge_hf 0 "$WORK/base" --base "$WORK/nowhere"
finish

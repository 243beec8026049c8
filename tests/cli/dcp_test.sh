#!/usr/bin/env bash
# torch DCP directories and HuggingFace models as inputs, where torch_test.sh does not merge them as they are.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"
data="$TESTS/data/torch"

for name in dcp_w2_bf16_qwen2 dcp_hf_w2_bf16_qwen2; do
    merge_in_many_ways "$data/$name" "3" --backend dcp
done

# The part that --prefix names; the moving average is another model.
ema="$data/dcp_ema_safetensors_w2"
rm -rf "$WORK/ema"
merge_case "$ema" "$WORK/ema" 3 --prefix ema.
python3 "$TESTS/support/compare_safetensors.py" "$WORK/ema" "$ema/expected_ema" >/dev/null 2>"$WORK/compare" || fail "ema: $(cat "$WORK/compare")"

# The shards below a consolidated model are the same model.
mkdir "$WORK/shards"
cp -r "$data/dcp_hf_consolidated_w3/source/sharded" "$WORK/shards/source"
cp -r "$data/dcp_hf_consolidated_w3"/{hf,expected} "$WORK/shards/"
merge_in_many_ways "$WORK/shards" "3"

# A shard file that .metadata does not name: told, and counted; refused under --strict, by plan too.
cp -r "$data/dcp_w2_bf16_qwen2" "$WORK/stale"
with_tokenizer "$WORK/stale"
cp "$WORK/stale/source/__0_0.distcp" "$WORK/stale/source/__7_0.distcp"
: >"$WORK/stale/source/__8_0.distcp"
told="1 shard file with 86.1 kB is not named in .metadata and not read: __7_0.distcp; does it belong to another save?"
for ranks in 0 2; do
    launcher=()
    ((ranks == 0)) || launcher=(mpirun -n "$ranks")
    merging=("${launcher[@]}" "$SHARDWELD" merge --local_dir "$WORK/stale/source" --hf_config "$WORK/stale/hf" --target_dir "$WORK/stale_model")
    expect_code 14 "${merging[@]}" --strict -q
    expect_text "$told (unreferenced_files, an error under --strict)"
    expect_absent "$WORK/stale_model"
    expect_code 0 "${merging[@]}" --report "$WORK/stale.json"
    expect_text "$told"
    same_as_expected "$data/dcp_w2_bf16_qwen2" "$WORK/stale_model"
    python3 - "$WORK/stale.json" <<'P' || fail "the report does not count the file"
import json, sys
report = json.load(open(sys.argv[1]))
assert [w["code"] for w in report["warnings"]] == ["unreferenced_files"], report["warnings"]
rows = [row for row in report["ledger"]["ignored"] if row["pattern"] == "*.distcp"]
assert rows == [{"pattern": "*.distcp", "reason": "a file that .metadata does not name", "count": 1, "bytes": 86099}], rows
P
    rm -rf "$WORK/stale_model"
done
expect_code 14 "$SHARDWELD" plan --local_dir "$WORK/stale/source" --hf_config "$WORK/stale/hf" --strict
expect_code 0 "$SHARDWELD" merge --local_dir "$data/dcp_w2_bf16_qwen2/source" --hf_config "$WORK/stale/hf" --target_dir "$WORK/sound" --strict -q

# Rows that .metadata gives to ranks which have none are placed by the stored shapes, and that is told.
uneven="$data/../world/dcp_fsdp2_tp_uneven"
expect_code 14 "$SHARDWELD" merge "$uneven/source" "$WORK/uneven" --hf_config "$uneven/hf" --names module --strict -q && expect_text rows_placed_by_shapes

# A finished model is read only on request; its configuration lies beside it.
merge_case "$data/dcp_w2_bf16_qwen2" "$WORK/model" 0
expect_code 3 "$SHARDWELD" merge --local_dir "$WORK/model" --target_dir "$WORK/again" -q
expect_text "HuggingFace model already"
expect_absent "$WORK/again"
expect_code 0 mpirun -n 3 "$SHARDWELD" merge --backend hf --local_dir "$WORK/model" --target_dir "$WORK/again" --max_shard_size 40KB -q
same_as_expected "$data/dcp_w2_bf16_qwen2" "$WORK/again"
expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$WORK/again" --target_dir "$WORK/whole" -q
same_as_expected "$data/dcp_w2_bf16_qwen2" "$WORK/whole"
finish

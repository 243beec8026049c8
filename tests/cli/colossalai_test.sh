#!/usr/bin/env bash
# ColossalAI's saves: bit-equal to the model that was saved, at any number of ranks; saves that were cut short.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"
data="$TESTS/data/colossalai"

merge_in_many_ways "$data/tp2_pp2_w4_fp32" "2 5"
merge_in_many_ways "$data/tp2_w2_fp32" "3" --backend colossalai
merge_in_many_ways "$data/ddp_w2_fp32" "3"

# One file of any name.
mkdir -p "$WORK/one/source"
cp "$data/ddp_w2_fp32/expected/model.safetensors" "$WORK/one/source/"
cp -r "$data/ddp_w2_fp32"/{hf,expected} "$WORK/one/"
merge_in_many_ways "$WORK/one" "2" --backend colossalai

# Cut short before the stages' indices were made one: they are read.
cp -r "$data/tp2_pp2_w4_fp32" "$WORK/cut"
model="$WORK/cut/source/model"
python3 - "$model" <<'P'
import json, os, sys
model = sys.argv[1]
index = model + "/pytorch_model.bin.index.json"
files = json.load(open(index))["weight_map"]
os.remove(index)
os.mkdir(model + "/tmp_index_files")
for stage in ("00001", "00002"):
    part = {name: file for name, file in files.items() if f"-stage-{stage}-" in file}
    json.dump({"metadata": {"total_size": 0.05}, "weight_map": part}, open(f"{model}/tmp_index_files/pytorch_model.bin.index-stage-{stage}.json", "w"))
P
merge_in_many_ways "$WORK/cut" "2"
merging=(mpirun -n 2 "$SHARDWELD" merge --local_dir "$WORK/cut/source" --hf_config "$WORK/cut/hf" --target_dir "$WORK/model" -q)
mv "$model/pytorch_model-stage-00002-shard-00002.bin" "$WORK/aside"
expect_code 3 "${merging[@]}"
expect_text "pytorch_model-stage-00002-shard-00002.bin"
rm "$model/tmp_index_files/pytorch_model.bin.index-stage-00002.json"
expect_code 3 "${merging[@]}"
expect_text "tmp_index_files/pytorch_model.bin.index-stage-00002.json"
rm "$model"/*stage-00002*
expect_code 6 "${merging[@]}"
expect_text "model.norm.weight"
rm -r "$model/tmp_index_files"
expect_code 3 "${merging[@]}"
expect_text "no pytorch_model.bin.index.json, which is written last"
expect_absent "$WORK/model"
finish

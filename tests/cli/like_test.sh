#!/usr/bin/env bash
# reshape --like: with other weights than the template's all else stays; what shares bytes or changes is no template. The same weights, and templates
# that are refused for what they are, are rows of tests/cases/like.txt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

data="$TESTS/data"
# Other weights: the average with a model of one more precision step is none of either, and all else is the template's.
tied="$data/torch/fsdp2_w4_bf16_qwen2_tied"
merge_case "$tied" "$WORK/model" 0 --report none
cp -r "$WORK/model" "$WORK/other"
py "$WORK/other/model.safetensors" <<'PYTHON'
import sys
import edit_safetensors as files
tensors = files.read(sys.argv[1])  # the last bit of each mantissa changes, at least
files.write(sys.argv[1], {name: [dtype, shape, bytes(byte ^ 1 for byte in data)] for name, (dtype, shape, data) in tensors.items()})
PYTHON
expect_code 0 mpirun -n 3 "$SHARDWELD" reshape "$WORK/other" "$WORK/like" --like "$tied/source" --no_fsync
expect_text "training state is copied"
expect_code 0 "$SHARDWELD" verify "$WORK/like" -q
# Sums of records are those of the new bytes: a merge that checks them ends well, and so does another reader of zips.
expect_code 0 "$SHARDWELD" merge "$WORK/like" "$WORK/back" --hf_config "$WORK/other" --check_crc before -q --no_fsync &&
    same_tensors "$WORK/back" "$WORK/other"
for file in "$WORK"/like/model_*.pt; do
    python3 -c 'import sys, zipfile; sys.exit(zipfile.ZipFile(sys.argv[1]).testzip() is not None)' "$file" || fail "$file: a wrong checksum"
done
cmp "$WORK/like/fsdp_config.json" "$tied/source/fsdp_config.json" || fail "fsdp_config.json is not the template's"
expect_code 0 "$SHARDWELD" reshape "$WORK/other" "$WORK/like" --like "$tied/source" --if_complete verify -q

# refused CODE TEXT [OPTIONS]
refused() {
    expect_code "$1" "$SHARDWELD" reshape "$WORK/model" "$WORK/none" "${@:3}" && expect_text "$2"
    expect_absent "$WORK/none"
}
# Tensors that share bytes, in whole or in part.
for shape in whole part; do
    rm -rf "$WORK/shared" && cp -r "$tied/source" "$WORK/shared"
    py "$WORK/shared/model_world_size_4_rank_0.pt" "$shape" <<'PYTHON'
import sys
import damage


def edit(root):
    norm, others = (damage.tensor(root, f"model.layers.0.{name}.weight") for name in ("input_layernorm", "post_attention_layernorm"))
    norm.args[0].fields[2] = others.args[0].fields[2]
    if sys.argv[2] == "part":
        others = damage.tensor(root, "model.layers.0.mlp.up_proj.weight")
        norm.args[0].fields[2], norm.args[0].fields[4] = others.args[0].fields[2], others.args[0].fields[4]
        damage.set_argument(norm, 1, 3)


damage.change(sys.argv[1], edit)
PYTHON
    refused 5 "share bytes of model_world_size_4_rank_0.pt" --like "$WORK/shared"
done
# A template that changes while it is read is no template.
cp -r "$tied/source" "$WORK/changing"
"$SHARDWELD" reshape "$WORK/model" "$WORK/none" --like "$WORK/changing" --no_fsync --bw_limit 150KB --progress json 2>"$WORK/events" &
running=$!
until grep -q '"phase":"moving tensors"' "$WORK/events" || ! kill -0 "$running" 2>/dev/null; do sleep 0.05; done
touch "$WORK/changing/model_world_size_4_rank_3.pt"
wait "$running"
[[ $? == 7 ]] || fail "a template that changed is taken: $(tail -1 "$WORK/events")"
grep -q "model_world_size_4_rank_3.pt was changed while it was being read" "$WORK/events" || fail "not said: $(tail -1 "$WORK/events")"
expect_absent "$WORK/none"
# A template of one layer more.
py "$WORK/model" "$WORK/short" <<'PYTHON'
import json, pathlib, shutil, sys
import edit_safetensors as files
model, short = map(pathlib.Path, sys.argv[1:])
shutil.copytree(model, short)
config = json.loads((model / "config.json").read_text())
last = config["num_hidden_layers"] - 1
config["num_hidden_layers"] = last
config.pop("layer_types", None)
(short / "config.json").write_text(json.dumps(config))
files.write(short / "model.safetensors", {name: tensor for name, tensor in files.read(model).items() if f".layers.{last}." not in name})
PYTHON
expect_code 6 "$SHARDWELD" reshape "$WORK/short" "$WORK/none" --like "$tied/source" && expect_text "which the model does not have"
expect_absent "$WORK/none"
finish

#!/usr/bin/env bash
# reshape: finished models and checkpoints become training checkpoints, which merge gives back bit for bit; the same files at any number of ranks.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
megatron="$TESTS/data/megatron"
torch="$TESTS/data/torch"

# model CASE NAME: the finished model of a case, and its config
model() {
    merge_case "$1" "$WORK/$2" 0 --report none
}

# trip CASE FORM: there at one rank and at three with either strategy, and back
trip() {
    local name out
    name="$(basename "$1")"
    out="$WORK/$name.out"
    rm -rf "$WORK/$name"* && model "$1" "$name"
    expect_code 0 "$SHARDWELD" reshape "$WORK/$name" "$out" --to "$2" -q --no_fsync || return
    for strategy in direct collective; do
        expect_code 0 mpirun -n 3 "$SHARDWELD" reshape "$WORK/$name" "$out.$strategy" --to "$2" --strategy $strategy -q --no_fsync
        [[ "$(files "$out")" == "$(files "$out.$strategy")" ]] || fail "$name to $2: other files at three ranks, $strategy"
    done
    expect_code 0 "$SHARDWELD" verify "$out" -q
    expect_code 0 "$SHARDWELD" merge "$out" "$WORK/$name.back" --hf_config "$WORK/$name" -q --no_fsync &&
        python3 "$TESTS/support/compare_safetensors.py" "$WORK/$name.back" "$WORK/$name" >"$WORK/compared" || fail "$name to $2 and back: $(<"$WORK/compared")"
}

trip "$megatron/qwen2-tp2-pp2-torchdist-bf16" torch_dist
trip "$megatron/qwen3moe-tp2-ep2-torchdist-bf16" torch_dist:layers=separate,era=019
trip "$megatron/deepseekv3-mtp-pp2-torchdist-bf16" torch_dist
trip "$megatron/llama-tp4-legacy-bf16" legacy:tp=4
trip "$megatron/llama-pp12-legacy-bf16" legacy:pp=12
trip "$megatron/llama-tp2-pp2-vpp2-legacy-bf16" legacy:tp=2,pp=2,vpp=2,spec=local
trip "$megatron/mixtral-ep2-pp2-legacy-bf16" legacy:tp=2,pp=2,ep=2,etp=1,experts=sequential
trip "$megatron/mixtral-ep2-pp2-legacy-bf16" legacy:tp=2,ep=2
trip "$torch/fsdp2_w4_bf16_qwen2_tied" fsdp:world=7
trip "$torch/hsdp2_w4_bf16_llama" fsdp:world=4,ddp=2
trip "$torch/fsdp2_w2_mixed_deepseek" fsdp:world=3
trip "$torch/dcp_w2_bf16_qwen2" dcp:world=3
# Names of released files and older ones are read, and not written.
trip "$TESTS/data/megatron_families/deepseekv4-tp1-legacy-bf16" fsdp:world=3
# Towers that no line of a recipe has come along.
trip "$torch/fsdp2_qwen2vl_w2_bf16" fsdp:world=3

# Tensors that are no part of the family have a name in a module tree, and none in Megatron's.
extra="$TESTS/data/deepspeed/zero2_w2_tied"
trip "$extra" fsdp:world=3
expect_code 5 "$SHARDWELD" reshape "$WORK/zero2_w2_tied" "$WORK/none" --to torch_dist && expect_text "have no name in a training checkpoint"
model "$TESTS/data/deepspeed/zero2_w2_oddsizes" odd
expect_code 6 "$SHARDWELD" reshape "$WORK/odd" "$WORK/none" --to legacy:tp=2 && expect_text "config.json has intermediate_size 51, which tp=2 does not divide"
expect_absent "$WORK/none"

# Names that no checkpoint of Megatron's has shown are not guessed. One that is there may be followed.
shown="$TESTS/data/megatron_families/llama4text-tp2-ep2-torchdist-bf16"
mkdir "$WORK/llama4"
python3 -c 'import json, sys; json.dump({"model_type": "llama4", "text_config": json.load(open(sys.argv[1]))}, open(sys.argv[2], "w"))' \
    "$shown/hf/config.json" "$WORK/llama4/config.json"
expect_code 0 "$SHARDWELD" merge "$shown/source" "$WORK/unshown" --hf_config "$WORK/llama4" -q --no_fsync
for form in torch_dist legacy:tp=2; do
    expect_code 5 "$SHARDWELD" reshape "$WORK/unshown" "$WORK/none" --to $form && expect_text "has shown the names of the family llama4"
    expect_absent "$WORK/none"
done
expect_code 0 "$SHARDWELD" reshape "$WORK/unshown" "$WORK/followed" --like "$shown/source" -q --no_fsync
expect_code 0 "$SHARDWELD" merge "$WORK/followed" "$WORK/unshown_back" --hf_config "$WORK/llama4" -q --no_fsync && same_tensors "$WORK/unshown_back" "$WORK/unshown"
# Nor are those of a recipe that says nothing of a comparison.
printf 'recipe mine\nextends qwen2\nmatch @model_type = "qwen2"\n' >"$WORK/mine.recipe"
model "$megatron/qwen2-tp2-pp2-torchdist-bf16" mine
expect_code 5 "$SHARDWELD" reshape "$WORK/mine" "$WORK/none" --to torch_dist --recipe "$WORK/mine.recipe" && expect_text "the family mine"
echo 'verified by a comparison' >>"$WORK/mine.recipe"
expect_code 0 "$SHARDWELD" reshape "$WORK/mine" "$WORK/own" --to torch_dist --recipe "$WORK/mine.recipe" -q --no_fsync
rm -rf "$WORK"/{unshown,followed,unshown_back,mine,own}

# From a training checkpoint as from the model it holds.
qwen="$megatron/qwen2-tp2-pp2-torchdist-bf16"
model "$qwen" qwen
for form in legacy:tp=2,pp=2 fsdp:world=2 torch_dist; do
    expect_code 0 "$SHARDWELD" reshape "$qwen/source" "$WORK/straight" --to $form --hf_config "$WORK/qwen" -q --no_fsync
    expect_code 0 "$SHARDWELD" reshape "$WORK/qwen" "$WORK/through" --to $form -q --no_fsync
    [[ "$(files "$WORK/straight")" == "$(files "$WORK/through")" ]] || fail "$form: another checkpoint straight from torch_dist than from the model"
    rm -rf "$WORK"/{straight,through}
done
# --to hf is a merge.
expect_code 0 "$SHARDWELD" reshape "$qwen/source" "$WORK/hf" --to hf --hf_config "$WORK/qwen" -q --no_fsync && same_as_expected "$qwen" "$WORK/hf"

# A damaged one is found, in the tensor; a stopped one goes on.
expect_code 0 "$SHARDWELD" reshape "$WORK/qwen" "$WORK/whole" --to legacy:tp=2 -q --no_fsync
expect_code 11 "$SHARDWELD" reshape "$WORK/qwen" "$WORK/stopped" --to legacy:tp=2 -q --stop_at 2020-01-01T00:00:00
expect_absent "$WORK/stopped"
cp -r "$WORK/whole" "$WORK/damaged"
python3 - "$WORK/damaged/release/mp_rank_01/model_optim_rng.pt" <<'PYTHON'
import sys
import zipfile

path = sys.argv[1]
record = max(zipfile.ZipFile(path).infolist(), key=lambda one: one.file_size)
assert zipfile.ZipFile(path).testzip() is None
with open(path, "r+b") as file:
    file.seek(record.header_offset + record.file_size // 2)
    byte = file.read(1)
    file.seek(-1, 1)
    file.write(bytes([byte[0] ^ 1]))
PYTHON
expect_code 13 "$SHARDWELD" verify "$WORK/damaged" -q && expect_out "mp_rank_01/model_optim_rng.pt"
expect_code 4 "$SHARDWELD" merge "$WORK/damaged" "$WORK/none" --hf_config "$WORK/qwen" -q
expect_absent "$WORK/none"

# refused CODE TEXT FORM [OPTIONS]: of the small Qwen2 with four heads and two groups
refused() {
    expect_code "$1" "$SHARDWELD" reshape "$WORK/qwen" "$WORK/none" --to "$3" "${@:4}" && expect_text "$2"
    expect_absent "$WORK/none"
}
refused 2 "--to no_such_form is no form of a checkpoint" no_such_form
refused 2 "tp" legacy:tp=x
refused 6 "num_attention_heads" legacy:tp=3
refused 6 "num_hidden_layers" legacy:pp=3
refused 6 "experts" legacy:ep=2
expect_code 2 "$SHARDWELD" reshape "$WORK/qwen" "$WORK/none" && expect_text "give --to torch_dist"
expect_code 12 "$SHARDWELD" reshape "$WORK/qwen" "$WORK/whole" --to torch_dist && expect_text "exists and is not empty"
expect_code 0 "$SHARDWELD" reshape "$WORK/qwen" "$WORK/whole" --to legacy:tp=2 --if_complete verify -q
expect_code 2 "$SHARDWELD" reshape "$WORK/qwen" "$WORK/none" --to torch_dist --quantize fp8-block
expect_absent "$WORK/none"
finish

#!/usr/bin/env bash
# DeepSpeed's checkpoints: bit-equal to the fp32 masters and to what the module held, the same files at any number of ranks and with both
# strategies; what is wrong with one is said, and nothing is left behind.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"
data="$TESTS/data/deepspeed"

# like EXPECTED OUT: the model in OUT is that of a directory.
like() {
    python3 "$TESTS/support/compare_safetensors.py" "$2" "$1" >/dev/null 2>"$WORK/compare" || fail "$1: $(head -3 "$WORK/compare")"
}

merge_in_many_ways "$data/zero2_w2_oddsizes" "2 5"
merge_in_many_ways "$data/zero3_w2_buffers" "3"
for name in zero2_w2_oddsizes zero2_w2_tied zero3_w2_buffers; do
    merge_case "$data/$name" "$WORK/$name" 0 --weights master
    same_as_expected "$data/$name" "$WORK/$name"
    merge_case "$data/$name" "$WORK/$name.16" 0 --weights model
    like "$data/$name/expected_16bit" "$WORK/$name.16"
done

# Tensor-parallel parts, joined by the rules that the checkpoint states; the same converted by DeepSpeed.
merge_in_many_ways "$data/autotp_zero1_tp2dp2" "3" --dtype bf16
merge_case "$data/autotp_zero1_tp2dp2" "$WORK/module" 2 --weights model
same_as_expected "$data/autotp_zero1_tp2dp2" "$WORK/module"
merge_case "$data/autotp_zero1_tp2dp2" "$WORK/masters" 0
expect_code 0 "$SHARDWELD" merge --local_dir "$data/universal_tp2/source" --hf_config "$data/autotp_zero1_tp2dp2/hf" --target_dir "$WORK/universal" -q
like "$WORK/masters" "$WORK/universal"

# transformers' trainer: config.json beside the tag's directory, and a copy of the model, which is not what is merged.
trainer="$WORK/trainer/checkpoint-2"
mkdir -p "$trainer"
cp -r "$data/zero2_w2_oddsizes/source/." "$data/zero2_w2_oddsizes/hf/config.json" "$trainer/"
cp "$data/zero2_w2_oddsizes/expected_16bit/model.safetensors" "$trainer/"
: >"$trainer/zero_to_fp32.py"
for level in "$WORK/trainer" "$trainer" "$trainer/global_step2"; do
    rm -rf "$WORK/from_trainer"
    expect_code 0 "$SHARDWELD" merge --local_dir "$level" --target_dir "$WORK/from_trainer" --report "$WORK/report.json" -v
    expect_text "weights: the fp32 masters in the optimizer's partitions"
    same_as_expected "$data/zero2_w2_oddsizes" "$WORK/from_trainer"
    expect_absent "$WORK/from_trainer/zero_to_fp32.py"
done
grep -q "weights: the fp32 masters" "$WORK/report.json" || fail "the report does not say which weights were taken"
! grep -q "weights_left_aside" "$WORK/report.json" || fail "the copy of the model is taken for weights that were lost"

# Moments are never read: what stands in their place does not matter.
cp -r "$data/zero2_w2_oddsizes" "$WORK/moments"
python3 - "$WORK/moments/source/global_step2" <<'P'
import os, re, sys, zipfile
for name in os.listdir(sys.argv[1]):
    path = os.path.join(sys.argv[1], name)
    with zipfile.ZipFile(path) as archive:
        spans = [(entry.header_offset, entry.file_size) for entry in archive.infolist() if re.search(r"optim_states/data/[12]$", entry.filename)]
    assert len(spans) == (2 if "optim" in name else 0), (name, spans)
    with open(path, "r+b") as file:
        for header, size in spans:
            file.seek(header + 26)
            lengths = file.read(4)
            file.seek(header + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"))
            file.write(b"\xff" * size)
P
merge_case "$WORK/moments" "$WORK/moments_merged" 0
same_as_expected "$data/zero2_w2_oddsizes" "$WORK/moments_merged"

# Layers of a pipeline and experts keep their names: no model of the hub has them.
mkdir "$WORK/toy"
echo '{"model_type": "toy"}' >"$WORK/toy/config.json"
for case in "pipe_w2 13 0.weight" "pipe_tied_w2 8 4.weight" "moe_w2 20 moe.deepspeed_moe.experts.deepspeed_experts.3.0.weight"; do
    read -r name count tensor <<<"$case"
    expect_code 0 "$SHARDWELD" merge --local_dir "$data/$name/source" --hf_config "$WORK/toy" --target_dir "$WORK/$name" --names module -q
    python3 - "$WORK/$name/model.safetensors" "$count" "$tensor" <<'P' || fail "$name: other tensors"
import json, sys
with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
header.pop("__metadata__")
assert len(header) == int(sys.argv[2]) and sys.argv[3] in header, sorted(header)
P
done

# Masters of experts, each divided among the ranks that have it.
merge_in_many_ways "$data/moe_zero1_w4" "2 3" --names module

# refused TEXT CODE CASE-DIR [options]: on two ranks.
refused() {
    expect_code "$2" mpirun -n 2 "$SHARDWELD" merge --local_dir "$3/source" --hf_config "$3/hf" --target_dir "$WORK/refused" -q "${@:4}"
    expect_text "$1"
    expect_absent "$WORK/refused"
}
cp -r "$data/zero2_w2_oddsizes" "$WORK/missing"
rm "$WORK/missing/source/global_step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
refused "1 of 2 optimizer files are missing: bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt" 3 "$WORK/missing"
merge_case "$WORK/missing" "$WORK/missing_model" 0 --weights model
like "$data/zero2_w2_oddsizes/expected_16bit" "$WORK/missing_model"
cp -r "$data/moe_zero1_w4" "$WORK/expert"
cp "$WORK/expert/source/global_step2/layer_0_expert_1_mp_rank_00_model_states.pt" "$WORK/expert/source/global_step2/layer_1_expert_1_mp_rank_00_model_states.pt"
refused "the file is not the one its place says" 6 "$WORK/expert" --names module
cp -r "$data/zero2_w2_oddsizes" "$WORK/exchanged"
(cd "$WORK/exchanged/source/global_step2" && mv bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt x &&
    mv bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt && mv x bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt)
refused "the file is not the one its place says" 6 "$WORK/exchanged"
# Masters are held against the module's weights in the first elements of each parameter and of each rank's part, wherever the module is saved.
# flipped CASE FILE RECORD BYTE: another bit there, in $WORK/flipped; of bf16 byte 0 of an element and of fp32 byte 2 has the last that counts
flipped() {
    rm -rf "$WORK/flipped"
    cp -r "$data/$1" "$WORK/flipped"
    [[ -d "$WORK/flipped/hf" ]] || cp -r "$WORK/toy" "$WORK/flipped/hf"
    python3 "$TESTS/support/damage.py" flip_record "$WORK/flipped/source/"global_step*/"$2" "$3" "$4" || fail "cannot change $2"
}
flipped zero2_w2_oddsizes bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt data/3 2
refused "the fp32 masters do not round to the module's weights: model.layers.1.self_attn.q_proj.weight; element 18 of model.layers.1.self_attn.q_proj.weight is " 6 "$WORK/flipped"
expect_text "in bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt, but "
expect_text "--weights model takes the module's"
refused "do not round" 6 "$WORK/flipped" --weights master
merge_case "$WORK/flipped" "$WORK/flipped_model" 0 --weights model
like "$data/zero2_w2_oddsizes/expected_16bit" "$WORK/flipped_model"
flipped autotp_zero1_tp2dp2 mp_rank_01_model_states.pt data/0 0
refused "but " 6 "$WORK/flipped"
expect_text "in mp_rank_01_model_states.pt"
flipped pipe_tied_w2 layer_04-model_states.pt data/0 0
refused "weights: tied_modules.embed.weight; element 0" 6 "$WORK/flipped" --names module
flipped moe_zero1_w4 layer_1_expert_2_mp_rank_00_model_states.pt data/0 0
refused "weights: moe2.deepspeed_moe.experts.deepspeed_experts.2.0.weight; element 0" 6 "$WORK/flipped" --names module

cp -r "$data/zero2_w2_oddsizes" "$WORK/latest"
echo "../../elsewhere" >"$WORK/latest/source/latest"
refused "which leaves the directory" 4 "$WORK/latest"
echo "global_step99" >"$WORK/latest/source/latest"
refused "global_step99, which is not there" 3 "$WORK/latest"
finish

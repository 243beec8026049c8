#!/usr/bin/env bash
# Directories as the trainers of the Python world leave them, saved by those tools (tests/data/world, which says how): each from every level
# that people give, bit by bit; what holds no weights, or none that can be told apart, is refused in plain words.
# Usage: trainers_test.sh SHARDWELD TESTS-DIR
source "$(dirname "$0")/lib.sh"
world="$TESTS/data/world"

# same_from CASE LEVEL RANKS [options]: the model of CASE, merged from LEVEL below its source.
same_from() {
    local case="$world/$1" level="$2" ranks="$3" launcher=()
    shift 3
    ((ranks == 0)) || launcher=(mpirun -n "$ranks")
    rm -rf "$WORK/model"
    expect_code 0 "${launcher[@]}" "$SHARDWELD" merge --local_dir "$case/source/$level" --hf_config "$case/hf" --target_dir "$WORK/model" --no_fsync -v "$@" &&
        same_as_expected "$case" "$WORK/model"
}

# With two ranks from the top, alone from the other levels.
same_from accelerate_fsdp2 "" 2
same_from accelerate_fsdp2 checkpoints 0
same_from accelerate_fsdp2 checkpoints/checkpoint_0 0
same_from accelerate_fsdp2 checkpoints/checkpoint_0/pytorch_model_fsdp_0 0
for case in accelerate_fsdp1_ranks accelerate_fsdp2_ranks; do
    same_from "$case" "" 2
    expect_text "checkpoint: accelerate's FSDP, world size 2"
done
for case in trainer_transformers trainer_trl; do
    same_from "$case" "" 2
    same_from "$case" checkpoint-1 0
    same_from "$case" checkpoint-1/pytorch_model_fsdp_0 0
done
for case in lightning_fsdp lightning_model_parallel; do
    same_from "$case" "" 2
    expect_text "all names begin with model., the name of the model in the module around it"
    same_from "$case" "epoch=0-step=1.ckpt" 0
done
same_from lightning_fsdp "" 0 --prefix model.model
for case in torchtitan_llama3 torchtitan_qwen3 torchtitan_qwen3_moe; do
    same_from "$case" "" 2
    expect_text "its names are torchtitan's"
    same_from "$case" checkpoint/step-10 0
done
# One projection for queries, keys and values; experts as they were called for a while.
for case in torchtitan_llama3 torchtitan_qwen3_moe; do
    rm -rf "$WORK/model"
    expect_code 0 "$SHARDWELD" merge "$world/$case/fused" "$WORK/model" --hf_config "$world/$case/hf" -q && same_as_expected "$world/$case" "$WORK/model"
done
same_from torchtitan_llama3 checkpoint 3 --strategy collective --message_limit 64

# As stored, with --names module; a family whose names in torchtitan are not known says so.
titan="$world/torchtitan_llama3"
expect_code 0 "$SHARDWELD" merge "$titan/source" "$WORK/stored" --hf_config "$titan/hf" --names module -q
grep -qa '"layers.0.attention.qkv_linear.wq.weight"' "$WORK/stored/model.safetensors" || fail "--names module renames"
mkdir "$WORK/mixtral"
sed 's/"llama"/"mixtral"/; s/LlamaFor/MixtralFor/' "$titan/hf/config.json" >"$WORK/mixtral/config.json"
expect_code 5 "$SHARDWELD" plan "$titan/source" --hf_config "$WORK/mixtral"
expect_text "the recipe mixtral does not know the names of torchtitan checkpoints, only llama, qwen3, qwen3_moe do"
expect_text "keep the stored names with --names module"

# Of several saves the newest by number, with a note; --iteration chooses, and finds what each holds.
copy="$WORK/several"
mkdir "$copy"
cp -r "$world/trainer_transformers/source/checkpoint-1" "$copy/checkpoint-10"
cp -r "$TESTS/data/deepspeed/zero2_w2_tied/source" "$copy/checkpoint-2"
mkdir "$copy/checkpoint-8"
cp -r "$WORK/model/"* "$copy/checkpoint-8"
hf="$world/trainer_transformers/hf"
expect_code 0 mpirun -n 2 "$SHARDWELD" merge "$copy" "$WORK/newest" --hf_config "$hf" --no_fsync
expect_text "took checkpoint-10, the newest of 3 checkpoints in $copy: --iteration N takes another"
same_as_expected "$world/trainer_transformers" "$WORK/newest"
expect_code 0 "$SHARDWELD" inspect "$copy" --iteration 2 --json
grep -qi deepspeed "$WORK/out" || fail "--iteration 2 is not DeepSpeed's"
expect_code 3 "$SHARDWELD" merge "$copy" "$WORK/none" --hf_config "$hf" --iteration 8
expect_text "checkpoint-8 is a HuggingFace model already"
expect_code 3 "$SHARDWELD" merge "$copy" "$WORK/none" --hf_config "$hf" --iteration 7
expect_text "choose one with --iteration: checkpoint-2, checkpoint-8, checkpoint-10"

# Only optimizer state; only flat parameters.
only_state="holds only optimizer state and no weights: optimizer* ("
for given in accelerate_fsdp2/source/checkpoints/checkpoint_0/optimizer_0 trainer_transformers/source/checkpoint-1/optimizer_0; do
    expect_code 3 mpirun -n 2 "$SHARDWELD" merge "$world/$given" "$WORK/none" --hf_config "$hf"
    expect_text "$only_state"
    expect_text "give the directory of the weights: it usually lies beside this one, as pytorch_model_fsdp_0, model or weights"
done
cp -r "$copy/checkpoint-10" "$WORK/half"
rm -r "$WORK/half/pytorch_model_fsdp_0"
expect_code 3 "$SHARDWELD" merge "$WORK/half" "$WORK/none" --hf_config "$hf" && expect_text "$only_state"
rm -r "$WORK/half/optimizer_0"
touch "$WORK/half/optimizer.bin"
expect_code 5 "$SHARDWELD" merge "$WORK/half" "$WORK/none" --hf_config "$hf"
expect_text "$WORK/half is optimizer state without weights"
local_case="$world/accelerate_fsdp1_local"
expect_code 5 mpirun -n 2 "$SHARDWELD" merge "$local_case/source" "$WORK/none" --hf_config "$local_case/hf"
expect_text "this is FSDP's LOCAL_STATE_DICT: a flat parameter does not say which weights it is made of"
expect_text "load it in the trainer that wrote it, and save with SHARDED_STATE_DICT instead"
expect_code 2 "$SHARDWELD" merge "$local_case/source" "$WORK/none" --hf_config "$local_case/hf" --backend hf
expect_text "is a checkpoint of accelerate's FSDP"
cp -r "$world/accelerate_fsdp2_ranks/source" "$WORK/lost"
rm "$WORK/lost/pytorch_model_fsdp_0_rank0.bin"
expect_code 3 "$SHARDWELD" merge "$WORK/lost" "$WORK/none" --hf_config "$hf"
expect_text "1 of 2 rank files are missing: pytorch_model_fsdp_0_rank0.bin"
mv "$WORK/lost/pytorch_model_fsdp_0_rank1.bin" "$WORK/lost/pytorch_model_fsdp_0_rank0.bin"
expect_code 6 "$SHARDWELD" merge "$WORK/lost" "$WORK/none" --hf_config "$hf"
expect_absent "$WORK/none"

# NeMo 2's directories: made here from a checkpoint of megatron-core, as no NeMo could be installed.
megatron="$TESTS/data/megatron/llama-tp2-optim-torchdist-bf16"
nemo="$WORK/nemo/llama--val_loss=1.20-epoch=0-step=10-consumed_samples=80.0"
mkdir -p "$nemo/context/nemo_tokenizer"
cp -r "$megatron/source/iter_0000010" "$nemo/weights"
echo '{}' | tee "$nemo/context/io.json" >"$nemo/context/nemo_tokenizer/tokenizer_config.json"
echo '{"model": {"vocab": {}}}' >"$nemo/context/nemo_tokenizer/tokenizer.json"
: >"$nemo/context/model.yaml"
for given in "$WORK/nemo" "$nemo" "$nemo/weights"; do
    rm -rf "$WORK/merged"
    expect_code 0 mpirun -n 2 "$SHARDWELD" merge "$given" "$WORK/merged" --hf_config "$megatron/hf" --no_fsync
    same_as_expected "$megatron" "$WORK/merged"
    cmp -s "$nemo/context/nemo_tokenizer/tokenizer.json" "$WORK/merged/tokenizer.json" || fail "no tokenizer from $given"
done
finish

#!/usr/bin/env bash
# What people bring from verl's merger: torchrun, a wrong --backend, bf16, directories without option names.
# Usage: verl_test.sh SHARDWELD TESTS-DIR
source "$(dirname "$0")/lib.sh"
fsdp="$TESTS/data/torch/fsdp2_w4_bf16_qwen2_tied"
masters="$TESTS/data/torch/fsdp2_lora_w2_fp32_qwen2"
legacy="$TESTS/data/megatron/llama-tp4-legacy-bf16"

# torchrun starts processes that each would be rank 0 of 1: refused before anything is touched, by the first alone.
torchrun=(env TORCHELASTIC_RUN_ID=none WORLD_SIZE=4 LOCAL_RANK=0)
merging=("$SHARDWELD" merge --local_dir "$fsdp/source" --target_dir "$WORK/my model")
expect_code 10 "${torchrun[@]}" RANK=0 "${merging[@]}"
expect_text "torchrun started 4 processes that MPI cannot join"
expect_text "mpirun -n 4 $SHARDWELD merge --local_dir $fsdp/source --target_dir '$WORK/my model'"
expect_code 10 "${torchrun[@]}" RANK=1 "${merging[@]}"
[[ ! -s "$WORK/err" ]] || fail "a later process of torchrun speaks: $(cat "$WORK/err")"
expect_absent "$WORK/my model"
# One process is enough for itself; a pod's variables say nothing.
expect_code 0 env TORCHELASTIC_RUN_ID=none WORLD_SIZE=1 LOCAL_RANK=0 RANK=0 "$SHARDWELD" inspect "$fsdp/source"
expect_code 0 env WORLD_SIZE=8 RANK=3 "$SHARDWELD" inspect "$fsdp/source"
expect_code 0 env TORCHELASTIC_RUN_ID=none WORLD_SIZE=2 LOCAL_RANK=0 mpirun -n 2 "$SHARDWELD" inspect "$fsdp/source"

# Directories without option names.
expect_code 0 "$SHARDWELD" "$fsdp/source" --json && cp "$WORK/out" "$WORK/bare"
expect_code 0 "$SHARDWELD" inspect --local_dir "$fsdp/source" --json
cmp -s "$WORK/out" "$WORK/bare" || fail "a directory alone is not inspected"
expect_code 0 "$SHARDWELD" plan "$fsdp/source" --ranks 4
expect_code 0 mpirun -n 2 "$SHARDWELD" merge "$fsdp/source" "$WORK/plain" -q
same_as_expected "$fsdp" "$WORK/plain"
expect_code 0 "$SHARDWELD" test "$fsdp/source" "$WORK/plain"
expect_code 0 "$SHARDWELD" verify "$WORK/plain" -q
expect_code 0 "$SHARDWELD" verify --local_dir "$WORK/plain" -q

# What a directory is, and what reads it, for every command.
is_fsdp="$fsdp/source is a verl FSDP checkpoint (world size 4)"
expect_code 2 mpirun -n 3 "$SHARDWELD" merge --backend megatron --local_dir "$fsdp/source" --target_dir "$WORK/wrong"
expect_text "$is_fsdp"
expect_text "use --backend fsdp, or leave it out"
for command in "diff $fsdp/source $WORK/plain" "test $fsdp/source $fsdp/source"; do
    # shellcheck disable=SC2086
    expect_code 2 "$SHARDWELD" $command && expect_text "$is_fsdp" && expect_text "merge it first"
done
expect_code 3 "$SHARDWELD" verify "$fsdp/source" && expect_text "$is_fsdp, no finished model" && expect_text "merge it first"
expect_code 3 "$SHARDWELD" upload "$fsdp/source" --hf_upload_path me/model && expect_text "merge it first"
expect_code 3 "$SHARDWELD" merge "$WORK/plain" "$WORK/wrong" && expect_text "add --quantize, --dtype or --max_shard_size to convert it"
expect_code 0 "$SHARDWELD" merge "$WORK/plain" "$WORK/fp16" --dtype fp16 -q --no_fsync
expect_code 0 "$SHARDWELD" verify "$WORK/fp16" && expect_out "dtype matches (float16)"
expect_code 3 "$SHARDWELD" merge some-org/Some-Model-8B "$WORK/wrong"
expect_text "hf download some-org/Some-Model-8B --local-dir Some-Model-8B"
expect_code 2 "$SHARDWELD" merge "$legacy/source" "$WORK/wrong" --hf_config some-org/Some-Model-8B
expect_text "hf download some-org/Some-Model-8B --local-dir Some-Model-8B"
mkdir "$WORK/both"
cp "$fsdp"/source/*.* "$TESTS/data/torch/dcp_w2_bf16_qwen2/source"/{.metadata,*.distcp} "$WORK/both"
expect_code 2 "$SHARDWELD" "$WORK/both" && expect_text "a verl FSDP checkpoint (world size 4) and a torch DCP checkpoint"
expect_text "choose one with --backend fsdp or --backend dcp"
expect_absent "$WORK/wrong"

# Master weights are wider than config.json says: said, and --verl gives bf16 and a generation_config.json.
cp -r "$masters" "$WORK/masters"
config="$(find "$WORK/masters/source" -name config.json | head -1)"
python3 -c 'import json, sys
config = json.load(open(sys.argv[1]))
json.dump(config | {"dtype": "bfloat16"}, open(sys.argv[1], "w"))' "$config"
wide=("$SHARDWELD" merge "$WORK/masters/source" --lora drop)
expect_code 0 "${wide[@]}" --target_dir "$WORK/wide"
expect_text "config.json says bfloat16, the checkpoint holds float32"
expect_text "with --dtype bfloat16 about "
expect_absent "$WORK/wide/generation_config.json"
expect_code 0 "${wide[@]}" --target_dir "$WORK/cast" --dtype bfloat16
! grep -q "config.json says" "$WORK/err" || fail "--dtype is doubted"
expect_code 0 mpirun -n 2 "${wide[@]}" --target_dir "$WORK/verl" --verl
cmp -s "$WORK/cast/model.safetensors" "$WORK/verl/model.safetensors" || fail "--verl is not bf16"
python3 - "$WORK/verl" <<'PYTHON' || fail "see above"
import json, sys
made, config = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("generation_config", "config"))
assert made.pop("_from_model_config") is True and made, made
assert all(config.get(key, False) == value for key, value in made.items()), (made, config)
PYTHON
finish

#!/usr/bin/env bash
# What people bring from verl's merger: torchrun. A wrong --backend, bf16, directories without option names: tests/cases/verl.txt.
# Usage: verl_test.sh SHARDWELD TESTS-DIR
source "$(dirname "$0")/lib.sh"
fsdp="$TESTS/data/torch/fsdp2_w4_bf16_qwen2_tied"

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
finish

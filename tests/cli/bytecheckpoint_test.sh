#!/usr/bin/env bash
# ByteCheckpoint's saves of DDP, FSDP1 and FSDP2: bit-equal to the model that was saved, at any number of ranks.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"
data="$TESTS/data/bytecheckpoint"

merge_in_many_ways "$data/fsdp2_w3_bf16_qwen2_tied" "2 5"
merge_in_many_ways "$data/fsdp1_w2_fp32_llama" "3" --backend bytecheckpoint
merge_in_many_ways "$data/ddp_w2_fp32_qwen3" "3"

# Without the steps' directory; a shard file is missing, then another rank's.
cp -r "$data/fsdp2_w3_bf16_qwen2_tied" "$WORK/bare"
mv "$WORK/bare/source/global_step_7"/* "$WORK/bare/source/"
rm -r "$WORK/bare/source/global_step_7" "$WORK/bare/source/latest_checkpointed_iteration.txt"
merge_in_many_ways "$WORK/bare" "2"
merging=(mpirun -n 2 "$SHARDWELD" merge --local_dir "$WORK/bare/source" --hf_config "$WORK/bare/hf" --target_dir "$WORK/model" -q)
mv "$WORK/bare/source/model/__1_1.distcp" "$WORK/aside"
expect_code 3 "${merging[@]}"
expect_text "__1_1.distcp"
cp "$WORK/bare/source/model/__2_0.distcp" "$WORK/bare/source/model/__1_1.distcp"
expect_code 4 "${merging[@]}"
expect_text "but the file has 16404 bytes"
expect_absent "$WORK/model"
finish

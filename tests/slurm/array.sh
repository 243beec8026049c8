# An array over many checkpoints: each task merges its own, and one that fails does not keep the others from theirs.
fsdp="$TESTS/data/torch/fsdp2_w12_bf16_qwen2"
dist="$TESTS/data/megatron/verl-qwen3-tp2-pp2-torchdist-bf16"
cp -r "$fsdp/source" "$HOSTS/lacking"
rm "$HOSTS"/lacking/model_world_size_12_rank_11.pt
printf '%s\n' "$fsdp/source" "$HOSTS/lacking" "$dist/source" >"$HOSTS/steps.txt"
submit --output="$HOSTS/%A_%a.log" --array=1-4%2 "$SCRIPTS/array.sbatch" steps.txt "$HOSTS/models" -q
expect_end "${job}_1" COMPLETED 0 "the array's first task"
expect_end "${job}_2" FAILED 3 "the array's second task" && expect_log "${job}_2" "model_world_size_12_rank_11.pt" "the array's second task"
expect_end "${job}_3" COMPLETED 0 "the array's third task"
expect_end "${job}_4" FAILED 2 "a task too many" && expect_log "${job}_4" "no line 4" "a task too many"
same_as_expected "$fsdp" "$(echo "$HOSTS"/models/1-*source)"
same_as_expected "$dist" "$(echo "$HOSTS"/models/3-*source)"
[[ "$(find "$HOSTS/models" -mindepth 1 -maxdepth 1 -type d | wc -l)" == 2 ]] || fail "the array wrote $(ls -A "$HOSTS/models")"
rm -rf "$HOSTS/models" "$HOSTS/lacking"

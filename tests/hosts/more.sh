# What else runs on several hosts: the comparison with a reference, checksums again, a folded adapter, HDF5 output.
legacy="$TESTS/data/megatron/llama-tp4-legacy-bf16"
spread "$legacy/source" h1 $(host_names)
both="$(ranks_each 2)"
merge_on 0 "$both" --local_dir "$LOCAL/source" --hf_config "$legacy/hf" -q --max_shard_size 100KB --dtype fp32
expect_code 0 "$HERE/mpirun.sh" "$both" verify "$HOSTS/out" --report "$HOSTS/report.json" -q
expect_code 0 "$HERE/mpirun.sh" "$both" test --local_dir "$LOCAL/source" --hf_config "$legacy/hf" --test_hf_dir "$legacy/expected" -q
expect_code 13 "$HERE/mpirun.sh" "$both" test --local_dir "$LOCAL/source" --hf_config "$legacy/hf" --test_hf_dir "$HOSTS/out" --strict_dtype -q
expect_codes 13 "$both"

lora="$TESTS/data/torch/fsdp2_lora_w2_fp32_qwen2"
expect_code 0 "$SHARDWELD" merge --local_dir "$lora/source" --target_dir "$HOSTS/one" --lora fold -q
spread "$lora/source" h1 h2 h1
merge_on 0 "$both" --local_dir "$LOCAL/source" --lora fold -q
expect_sum "$(sum_of "$HOSTS/one")" "a folded adapter"

spread "$legacy/source" h1 $(host_names)
if [[ -e "$(dirname "$SHARDWELD")/shardweld_hdf5.so" ]]; then
    merge_on 0 "$both" --local_dir "$LOCAL/source" --hf_config "$legacy/hf" -q --output_format hdf5
    python3 "$TESTS/support/compare_hdf5.py" "$HOSTS/out" "$legacy/expected" >/dev/null 2>"$WORK/compare" || fail "HDF5: $(<"$WORK/compare")"
else
    echo "SKIPPED in part: built without HDF5"
fi

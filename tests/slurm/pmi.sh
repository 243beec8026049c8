# Ranks of a program that uses MPICH find each other through PMI-2; those that cannot are refused.
legacy="$TESTS/data/megatron/llama-tp4-legacy-bf16"
small=(--local_dir "$legacy/source" --hf_config "$legacy/hf" -q)
step=(srun -N2 -n4 --ntasks-per-node=2 --quiet)

expect_code 0 "${step[@]}" --mpi=pmi2 -K shardweld merge "${small[@]}" --target_dir "$HOSTS/pmi" --report "$HOSTS/pmi.json"
same_as_expected "$legacy" "$HOSTS/pmi"
grep -q '"mpi": *"MPICH' "$HOSTS/pmi.json" && grep -q '"ranks": *4' "$HOSTS/pmi.json" || fail "not four ranks of MPICH: $(grep -o '"environment".\{120\}' "$HOSTS/pmi.json")"
expect_code 10 "${step[@]}" --mpi=none shardweld merge "${small[@]}" --target_dir "$HOSTS/none" && expect_text "srun --mpi="
expect_absent "$HOSTS/none"
rm -rf "$HOSTS/pmi" "$HOSTS/pmi.json"

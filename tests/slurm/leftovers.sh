# srun that returns 0 though no task was launched: no script takes that for done. What a crashed node leaves in slurmd's spool has such an end under
# Slurm 22.05; so has a program that ends with 0 before it has told of its end.
legacy="$TESTS/data/megatron/llama-tp4-legacy-bf16"
merge=("$SCRIPTS/merge.sbatch" "$legacy/source")
mkdir "$HOSTS/silent"
printf '#!/bin/bash\n((${SLURM_RESTART_COUNT:-0} >= $SILENT)) && exec "%s" "$@"\nexit 0\n' "$SHARDWELD" >"$HOSTS/silent/shardweld"
chmod +x "$HOSTS/silent/shardweld"
silent() { # RUNS SBATCH-ARGUMENTS
    SILENT=$1 PATH="$HOSTS/silent:$PATH" submit --ntasks-per-node=2 "${@:2}"
}
silent 2 "${merge[@]}" "$HOSTS/late" --hf_config "$legacy/hf" -q
late=$job
silent 9 "${merge[@]}" "$HOSTS/never" --hf_config "$legacy/hf" -q
never=$job
"$SHARDWELD" merge "$legacy/source" "$HOSTS/other" --hf_config "$legacy/hf" --report "$HOSTS/other.report.json" -q
python3 - "$HOSTS/other/model.safetensors" <<'P'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(-1, 2)
    last = file.read(1)[0]
    file.seek(-1, 2)
    file.write(bytes([last ^ 64]))
P
silent 9 "$SCRIPTS/test.sbatch" "$legacy/source" "$HOSTS/other" --hf_config "$legacy/hf"
tested=$job
submit --dependency="afterok:$tested" --kill-on-invalid-dep=yes --wrap true
behind=$job
expect_end "$late" COMPLETED 0 "ranks that begin at the third run" 120 && same_as_expected "$legacy" "$HOSTS/late"
[[ "$(field "$late" Restarts)" == 2 ]] || fail "ranks that begin at the third run: $(field "$late" Restarts) restarts"
expect_end "$never" FAILED 10 "ranks that never begin" 120 && expect_log "$never" "has not told of its end" "ranks that never begin"
[[ "$(field "$never" Restarts)" == 3 ]] || fail "ranks that never begin: $(field "$never" Restarts) restarts"
expect_absent "$HOSTS/never"
expect_end "$tested" FAILED 10 "a test that never runs" 120
expect_end "$behind" CANCELLED 0 "behind a test that never runs"
[[ -z "$(find "$HOSTS" -maxdepth 1 -name '.shardweld-done-*')" ]] || fail "proofs are left: $(find "$HOSTS" -maxdepth 1 -name '.shardweld-done-*')"
rm -rf "$HOSTS"/{silent,late,other*}

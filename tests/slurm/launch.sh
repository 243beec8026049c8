# What srun makes of ranks: refused without PMIx, agreed errors with their own code, dead ranks.
legacy="$TESTS/data/megatron/llama-tp4-legacy-bf16"
small=(--local_dir "$legacy/source" --hf_config "$legacy/hf" -q)
step=(srun -N2 -n4 --ntasks-per-node=2 --quiet)

# MPI's own end hangs, all is done: the step ends with the code of what was done.
LD_PRELOAD="$(dirname "$SHARDWELD")/../lib/hang_at_end.so" timeout 50 "${step[@]}" --mpi=pmix -K shardweld merge "${small[@]}" --target_dir "$HOSTS/parted" \
    >"$WORK/parted" 2>&1 &
parting=$!

# Each task would merge on its own.
for kind in none pmi2; do
    expect_code 10 "${step[@]}" --mpi=$kind shardweld merge "${small[@]}" --target_dir "$HOSTS/none" && expect_text "srun --mpi=pmix"
    expect_absent "$HOSTS/none"
done

# All ranks know the error, and the first to return its code has the others ended by -K: they must not be ended with another one.
mkdir "$HOSTS/full"
touch "$HOSTS/full/x"
for turn in {1..5}; do
    expect_code 12 "${step[@]}" --mpi=pmix -K shardweld merge "${small[@]}" --target_dir "$HOSTS/full" && expect_text "full"
    expect_code 2 "${step[@]}" --mpi=pmix -K shardweld merge "${small[@]}" --no_such_option && expect_text "no_such_option"
done

code=0
wait $parting || code=$?
((code == 0)) || fail "an MPI that hangs at its end: code $code: $(<"$WORK/parted")"
[[ -f "$HOSTS/parted/model.safetensors" ]] || fail "an MPI that hangs at its end: no model"
rm -rf "$HOSTS/parted"

# A job whose ranks crash while they start queues again, thrice at most. Their targets are their own: make_big merges to one.
mkdir "$HOSTS/crashing"
printf '#!/bin/bash\n((${SLURM_RESTART_COUNT:-0} >= $CRASHES)) || kill -SEGV $$\nexec "%s" "$@"\n' "$SHARDWELD" >"$HOSTS/crashing/shardweld"
chmod +x "$HOSTS/crashing/shardweld"
crashing() { # NODES CRASHES NAME
    CRASHES=$2 PATH="$HOSTS/crashing:$PATH" submit --ntasks-per-node=2 --nodes="$1" "$SCRIPTS/merge.sbatch" "$legacy/source" "$HOSTS/$3" "${small[@]:2}"
}
crashing 1 1 crashed
one=$job
crashing 1 2 twice
two=$job
crashing 2 9 never
never=$job

# A rank that is killed ends the step, at once, and nothing stands under the target's name.
make_big
kill_ranks_on h2 &
killer=$!
began=$SECONDS
code=0
timeout 60 "${step[@]}" --mpi=pmix -K shardweld merge --local_dir "$big/source" --hf_config "$big/hf" --target_dir "$HOSTS/out" --bw_limit 10MB \
    >"$WORK/out" 2>"$WORK/err" || code=$?
wait $killer
((code == 137 || code == 143)) || fail "a killed rank: code $code: $(head -c 600 "$WORK/err")"
((SECONDS - began < 15)) || fail "a killed rank: the step took $((SECONDS - began)) s to end"
expect_absent "$HOSTS/out"
rm -rf "$HOSTS"/.out.*

# Without -K, PMIx or else the watchdog ends the ranks that the first one leaves behind, and those that wait for one that hangs.
signal_first() { # SIGNAL TARGET: of this step alone: jobs run beside it
    local pid
    eventually 30 writes_into "$2"
    for pid in $(pgrep -x shardweld); do
        grep -qzFx -- "$2" "/proc/$pid/cmdline" && grep -qzx SLURM_PROCID=0 "/proc/$pid/environ" && kill "-$1" "$pid"
    done
}
for signal in KILL STOP; do
    signal_first $signal "$HOSTS/left" &
    sender=$!
    began=$SECONDS
    code=0
    timeout -k 1 60 "${step[@]}" --mpi=pmix shardweld merge --local_dir "$big/source" --hf_config "$big/hf" --target_dir "$HOSTS/left" --bw_limit 10MB \
        --stall_timeout 5s >"$WORK/out" 2>"$WORK/err" || code=$?
    wait $sender
    ((code == 10 || code == 137 || code == 143)) || fail "$signal of the first rank without -K: code $code: $(head -c 600 "$WORK/err")"
    ((SECONDS - began < 40)) || fail "$signal of the first rank without -K: the step took $((SECONDS - began)) s to end"
    [[ "$signal" == KILL ]] || { expect_text "no progress for 5 s (--stall_timeout)" && expect_text "no answer (UDP) from rank 0 (h1), last heard of at "; }
    expect_absent "$HOSTS/left"
    rm -rf "$HOSTS"/.left.*
done

expect_end "$one" COMPLETED 0 "a crash at the start"
same_as_expected "$legacy" "$HOSTS/crashed"
expect_end "$two" COMPLETED 0 "two crashes at the start"
same_as_expected "$legacy" "$HOSTS/twice"
expect_end "$never" FAILED 139 "crashes at every start"
[[ "$(field "$never" Restarts)" == 3 ]] || fail "crashes at every start: $(field "$never" Restarts) restarts"
rm -rf "$HOSTS"/{crashing,crashed,twice}

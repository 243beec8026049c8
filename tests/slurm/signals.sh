# Signals that Slurm sends to ranks: code 11, nothing under the target's name, and the job queues again and goes on.
make_big
declare -A signalled=()
mkdir "$HOSTS/first"
printf '#!/bin/bash\n((${SLURM_RESTART_COUNT:-0} > 0)) || set -- "$@" --bw_limit 10MB\nexec "%s" "$@"\n' "$SHARDWELD" >"$HOSTS/first/shardweld"
chmod +x "$HOSTS/first/shardweld"
for signal in USR1 TERM; do
    PATH="$HOSTS/first:$PATH" submit --ntasks-per-node=2 "$SCRIPTS/merge.sbatch" "$big/source" "$HOSTS/$signal" --hf_config "$big/hf"
    signalled[$signal]=$job
done
for signal in USR1 TERM; do
    eventually 30 writes_into "$HOSTS/$signal"
    sleep 2
    expect_absent "$HOSTS/$signal"
    scancel --signal=$signal "${signalled[$signal]}"
done
for signal in USR1 TERM; do
    expect_end "${signalled[$signal]}" COMPLETED 0 "after $signal" 120 && {
        expect_log "${signalled[$signal]}" "the same command continues" "$signal"
        expect_log "${signalled[$signal]}" "code 11 after run 1: queued again" "$signal"
        [[ "$(field "${signalled[$signal]}" Restarts)" == 1 ]] || fail "after $signal: $(field "${signalled[$signal]}" Restarts) restarts"
        expect_same "$big_sum" "$HOSTS/$signal" "after $signal"
        expect_report "$HOSTS/$signal.report.json" 'report["resume"]["bytes_reused"] > 0 and len(report["ranks"]) == 2' "after $signal"
    }
done
rm -rf "$HOSTS"/{USR1,TERM,first}

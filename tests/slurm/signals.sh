# Signals that Slurm sends to ranks: code 11, nothing under the target's name, and a later job goes on.
make_big
slow=(--hf_config "$big/hf" --bw_limit 10MB)
declare -A signalled=()
for signal in USR1 TERM; do
    submit --ntasks-per-node=2 "$SCRIPTS/one_node.sbatch" "$big/source" "$HOSTS/$signal" "${slow[@]}"
    signalled[$signal]=$job
done
for signal in USR1 TERM; do
    eventually 30 writes_into "$HOSTS/$signal"
    sleep 2
    scancel --signal=$signal "${signalled[$signal]}"
done
for signal in USR1 TERM; do
    expect_end "${signalled[$signal]}" FAILED 11 "$signal" && expect_log "${signalled[$signal]}" "the same command continues" "$signal"
    expect_absent "$HOSTS/$signal"
    submit "$SCRIPTS/resume.sbatch" "$big/source" "$HOSTS/$signal" --hf_config "$big/hf"
    signalled[$signal]=$job
done
for signal in USR1 TERM; do
    expect_end "${signalled[$signal]}" COMPLETED 0 "after $signal" && {
        expect_same "$big_sum" "$HOSTS/$signal" "after $signal"
        expect_report "$HOSTS/$signal.report.json" 'report["resume"]["bytes_reused"] > 0 and len(report["ranks"]) == 4' "after $signal"
    }
done
rm -rf "$HOSTS"/{USR1,TERM}

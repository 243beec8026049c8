# A node whose link is cut under a job: those that are left say which ranks do not answer, where and since when. With the link back the job goes on.
make_big
mkdir "$HOSTS/paced"
printf '#!/bin/bash\n((${SLURM_RESTART_COUNT:-0} > 0)) || set -- "$@" --bw_limit 4MB\nexec "%s" "$@"\n' "$SHARDWELD" >"$HOSTS/paced/shardweld"
chmod +x "$HOSTS/paced/shardweld"
PATH="$HOSTS/paced:$PATH" submit --nodes=2 --ntasks-per-node=2 "$SCRIPTS/merge.sbatch" "$big/source" "$HOSTS/cut" --hf_config "$big/hf" \
    --strategy collective --stall_timeout 5s
cut=$job
eventually 60 keeps_some "$HOSTS/cut"
ip link set to-h2 down
# Not before srun's word: it ends the step once the ranks that are left have gone.
eventually 60 grep -q "code 10 after run 1\|srun: error" "$HOSTS/$cut.log"
ip link set to-h2 up
expect_log "$cut" "rank 0 (h1): no progress for 5 s (--stall_timeout) while " "a cut link"
expect_log "$cut" "no answer (UDP) from ranks 2, 3 (h2), last heard of at " "a cut link"
expect_absent "$HOSTS/cut"
expect_end "$cut" COMPLETED 0 "a cut link" 180 && expect_same "$big_sum" "$HOSTS/cut" "a cut link"
(($(field "$cut" Restarts) > 0)) || fail "a cut link: the job was never requeued"
expect_report "$HOSTS/cut.report.json" 'report["resume"]["bytes_reused"] > 0 and hosts == 2' "a cut link"
rm -rf "$HOSTS"/{paced,cut*}

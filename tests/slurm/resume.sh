# A job that meets its time limit goes back into the queue and resumes, until it is done; one that waits for it waits until then.
make_big
slow=(--hf_config "$big/hf" --bw_limit 4MB)
# Told by Slurm (some time within half a minute of when it was asked to), by the job's end, and by an operator who wants the node.
submit --time=1 --signal=USR1@55 "$SCRIPTS/resume.sbatch" "$big/source" "$HOSTS/told" "${slow[@]}"
told=$job
submit --time=1 --signal=USR2@0 "$SCRIPTS/resume.sbatch" "$big/source" "$HOSTS/ended" "${slow[@]}" --stop_before 45s
ended=$job
submit "$SCRIPTS/resume.sbatch" "$big/source" "$HOSTS/requeued" --hf_config "$big/hf" --bw_limit 10MB
requeued=$job
submit --dependency="afterok:$told" "$SCRIPTS/test.sbatch" "$big/source" "$HOSTS/told" --hf_config "$big/hf"
tested=$job
eventually 30 writes_into "$HOSTS/requeued"
sleep 2
scontrol requeue "$requeued"
for name in requeued ended told; do
    expect_end "${!name}" COMPLETED 0 "$name" 120 || continue
    expect_same "$big_sum" "$HOSTS/$name" "$name"
    expect_report "$HOSTS/$name.report.json" 'report["resume"]["bytes_reused"] > 0' "$name"
    checks=$((checks + 1))
    (($(field "${!name}" Restarts) > 0)) || fail "$name: the job was never requeued"
    echo "$name: $(field "${!name}" Restarts) restarts"
done
expect_end "$tested" COMPLETED 0 "the test behind a resumed merge"
rm -rf "$HOSTS"/{told,ended,requeued}

# Job scripts that plan prints, submitted as they are: resources as forecast, and the same files.
make_big
plan=("$SHARDWELD" plan --local_dir "$big/source" --hf_config "$big/hf" --sbatch)
expect_code 0 "${plan[@]}" --target_dir "$HOSTS/it's planned" --nodes 2 --ranks 4 && cp "$WORK/out" "$HOSTS/planned.sbatch"
bash -n "$HOSTS/planned.sbatch" || fail "the planned script is not one"
submit "$HOSTS/planned.sbatch"
expect_end "$job" COMPLETED 0 "the planned job" && {
    expect_same "$big_sum" "$HOSTS/it's planned" "the planned job"
    expect_report "$HOSTS/it's planned.report.json" 'hosts == 2 and len(report["ranks"]) == 4' "the planned job"
}
for known in NumNodes=2 NumTasks=4 CPUs/Task=2 MinMemoryCPU=256M TimeLimit=00:10:00 Requeue=1; do
    [[ "$(field "$job" "${known%=*}")" == "${known#*=}" ]] || fail "the planned job: $(field "$job" "${known%=*}") instead of $known"
done
# What a site asks of a job.
expect_code 0 "$SHARDWELD" sbatch "$big/source" "$HOSTS/asked" --hf_config "$big/hf" --ranks 2 --partition transfer --account models --time 7 --output "$HOSTS/asked-%j.log" &&
    cp "$WORK/out" "$HOSTS/asked.sbatch"
job="$(sbatch --parsable "$HOSTS/asked.sbatch")" || fail "a job with a partition and an account is refused"
expect_end "$job" COMPLETED 0 "the job of a partition" && expect_same "$big_sum" "$HOSTS/asked" "the job of a partition"
for known in Partition=transfer Account=models NumTasks=2 TimeLimit=00:07:00 "StdOut=$HOSTS/asked-$job.log"; do
    [[ "$(field "$job" "${known%%=*}")" == "${known#*=}" ]] || fail "the job of a partition: $(field "$job" "${known%%=*}") instead of $known"
done
[[ -s "$HOSTS/asked-$job.log" ]] || fail "the job's log is not where it was asked for"

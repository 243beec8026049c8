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

# One node and several, at the same time: the same files as one rank's.
make_big
submit "$SCRIPTS/merge.sbatch" "$big/source" "$HOSTS/by-one" --hf_config "$big/hf" --strategy direct
one=$job
submit --nodes=2 "$SCRIPTS/merge.sbatch" "$big/source" "$HOSTS/by-many" --hf_config "$big/hf" --strategy collective
many=$job
expect_end "$one" COMPLETED 0 "one node" && {
    expect_same "$big_sum" "$HOSTS/by-one" "one node"
    expect_report "$HOSTS/by-one.report.json" 'hosts == 1 and len(report["ranks"]) == 4 and sent == 0' "one node"
    grep -qE '^[0-9-]{10} [0-9:]{8} run 1 of job '"$one"' on h[12]' "$HOSTS/$one.log" || fail "the log does not begin with its run: $(head -n 1 "$HOSTS/$one.log")"
    tail -n 1 "$HOSTS/$one.log" | grep -qE '^[0-9-]{10} [0-9:]{8} merge: [0-9]+ tensors, .* [MG]B in .* with 4 ranks, each at most .* of memory' ||
        fail "the log does not end with figures: $(tail -n 1 "$HOSTS/$one.log")"
}
expect_end "$many" COMPLETED 0 "two nodes" && {
    expect_same "$big_sum" "$HOSTS/by-many" "two nodes"
    expect_report "$HOSTS/by-many.report.json" 'hosts == 2 and len(report["ranks"]) == 8 and sent > 0' "two nodes"
}
rm -rf "$HOSTS"/by-*

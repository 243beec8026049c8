# One node and several, at the same time: the same files as one rank's.
make_big
submit "$SCRIPTS/one_node.sbatch" "$big/source" "$HOSTS/by-one" --hf_config "$big/hf" --strategy direct
one=$job
submit "$SCRIPTS/many_nodes.sbatch" "$big/source" "$HOSTS/by-many" --hf_config "$big/hf" --strategy collective
many=$job
expect_end "$one" COMPLETED 0 "one node" && {
    expect_same "$big_sum" "$HOSTS/by-one" "one node"
    expect_report "$HOSTS/by-one.report.json" 'hosts == 1 and len(report["ranks"]) == 4 and sent == 0' "one node"
}
expect_end "$many" COMPLETED 0 "two nodes" && {
    expect_same "$big_sum" "$HOSTS/by-many" "two nodes"
    expect_report "$HOSTS/by-many.report.json" 'hosts == 2 and len(report["ranks"]) == 8 and sent > 0' "two nodes"
}
rm -rf "$HOSTS"/by-*

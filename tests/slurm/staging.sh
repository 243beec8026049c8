# Shards, given by links, on the nodes' local disks, each on one of them; afterwards the disks are empty again, also when the merge has failed.
make_big
export STAGE_DIR="$LOCAL"
cp -rs "$big/source" "$HOSTS/linked"
submit "$SCRIPTS/staging.sbatch" "$HOSTS/linked" "$HOSTS/staged" --hf_config "$big/hf"
good=$job
submit "$SCRIPTS/staging.sbatch" "$big/source" "$HOSTS/unstaged" --hf_config "$HOSTS/no-such-directory"
bad=$job
expect_end "$good" COMPLETED 0 "staging" && {
    expect_same "$big_sum" "$HOSTS/staged" "staging"
    expect_report "$HOSTS/staged.report.json" 'hosts == 2 and sent > 0' "staging"
}
expect_end "$bad" FAILED 2 "staging without a config"
expect_absent "$HOSTS/unstaged"
checks=$((checks + 1))
left="$(all_hosts "find '$LOCAL' -name 'shardweld-*'")"
[[ -z "$left" ]] || fail "staging leaves $left on local disks"
rm -rf "$HOSTS"/staged* "$HOSTS/linked"
